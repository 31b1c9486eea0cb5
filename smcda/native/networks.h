// Whole networks: the log-likelihood of a group of images and its gradient, for one particle.
#pragma once

#include <cmath>
#include <cstdint>

#include "layers.h"

namespace smcda {

constexpr int kSide = 28, kClasses = 10;

// Dense layers with tanh between them and a softmax over the last: Head<400, 120, 84, 10>.
template <int In, int Out, int... Rest>
struct Head {
  using Layer = Dense<In, Out>;
  static constexpr int kIn = Layer::kIn, kLogits = Head<Out, Rest...>::kLogits;
  static constexpr int kParameters = Layer::kParameters + Head<Out, Rest...>::kParameters;

  Layer layer;
  Head<Out, Rest...> rest;
  alignas(64) float units[kLanes * Layer::kOut], gradient[kLanes * Layer::kOut];

  void load(const float* parameters) {
    layer.load(parameters);
    rest.load(parameters + Layer::kParameters);
  }

  const float* forward(const float* input) {
    layer.forward(input, units, [](Vec sum) { return tanh(sum); });
    return rest.forward(units);
  }

  double pass(const float* input, const uint8_t* labels, int n_images, float* input_gradient) {
    layer.forward(input, units, [](Vec sum) { return tanh(sum); });
    const double value = rest.pass(units, labels, n_images, gradient);
    for (int i = 0; i < kLanes * Layer::kOut; ++i) gradient[i] *= 1.0f - units[i] * units[i];
    layer.sum_weight_gradient(input, gradient);
    layer.back_to_input(gradient, input_gradient);
    return value;
  }

  void add_gradient(float* parameters) {
    layer.add_gradient(parameters);
    rest.add_gradient(parameters + Layer::kParameters);
  }
};

template <int In, int Out>
struct Head<In, Out> {
  using Layer = Dense<In, Out>;
  static constexpr int kParameters = Layer::kParameters, kLogits = Layer::kOut;

  Layer layer;
  alignas(64) float logits[kLanes * Layer::kOut], gradient[kLanes * Layer::kOut];

  void load(const float* parameters) { layer.load(parameters); }

  // The logits, [image][kOut].
  const float* forward(const float* input) {
    layer.forward(input, logits, [](Vec sum) { return sum; });
    return logits;
  }

  // The sum over images of the log-probability of their labels; images from `n_images` on do not count.
  double pass(const float* input, const uint8_t* labels, int n_images, float* input_gradient) {
    layer.forward(input, logits, [](Vec sum) { return sum; });
    std::memset(gradient, 0, sizeof(gradient));
    double value = 0;
    for (int image = 0; image < n_images; ++image) {
      const float* z = logits + image * Layer::kOut;
      float* slope = gradient + image * Layer::kOut;
      float most = z[0], total = 0;
      for (int c = 1; c < Out; ++c) most = z[c] > most ? z[c] : most;
      for (int c = 0; c < Out; ++c) total += slope[c] = std::exp(z[c] - most);
      for (int c = 0; c < Out; ++c) slope[c] = (c == labels[image]) - slope[c] / total;
      value += z[labels[image]] - most - std::log(total);
    }
    layer.sum_weight_gradient(input, gradient);
    layer.back_to_input(gradient, input_gradient);
    return value;
  }

  void add_gradient(float* parameters) { layer.add_gradient(parameters); }
};

// Two stages of convolution and pooling, then dense layers: the shape of both networks.
template <typename First, typename Second, typename Dense>
struct Classifier {
  static constexpr int kParameters = First::kParameters + Second::kParameters + Dense::kParameters;
  static constexpr int kChannels = sizeof(Second::bias) / sizeof(float), kMap = Second::kPooled;
  static constexpr int kInner = sizeof(First::bias) / sizeof(float);

  First first;
  Second second;
  Dense head;
  alignas(64) Vec pixels[First::kWide * First::kWide], slopes[kChannels * kMap * kMap];
  alignas(64) Vec inner_slopes[kInner * First::kPooled * First::kPooled];
  alignas(64) float units[kLanes * Dense::kIn], unit_slopes[kLanes * Dense::kIn];
  float brightness[256];

  // Takes the particle's weights; sums start at zero.
  void load(const float* parameters) {
    for (int level = 0; level < 256; ++level) brightness[level] = level / 255.0f;
    first.load(parameters);
    second.load(parameters + First::kParameters);
    head.load(parameters + First::kParameters + Second::kParameters);
  }

  // Up to the dense layers, for at most kLanes images.
  void convolve(const uint8_t* images, int n_images) {
    constexpr int border = (First::kWide - kSide) / 2;
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) {
        Vec& pixel = pixels[(y + border) * First::kWide + x + border];
        for (int lane = 0; lane < n_images; ++lane)
          pixel[lane] = brightness[images[(lane * kSide + y) * kSide + x]];
      }
    first.forward(pixels);
    second.forward(first.pooled);
    // Flax flattens [y][x][channel].
    for (int channel = 0; channel < kChannels; ++channel)
      for (int place = 0; place < kMap * kMap; ++place)
        for (int lane = 0; lane < kLanes; ++lane)
          units[lane * Dense::kIn + place * kChannels + channel] =
              second.pooled[channel * kMap * kMap + place][lane];
  }

  // Logits of at most kLanes images, [image][kClasses].
  void logits(const uint8_t* images, int n_images, float* output) {
    convolve(images, n_images);
    const float* rows = head.forward(units);
    for (int image = 0; image < n_images; ++image)
      std::memcpy(output + image * kClasses, rows + image * Dense::kLogits, kClasses * sizeof(float));
  }

  // Log-likelihood of at most kLanes images; its gradient is added to the sums kept in the layers.
  double pass(const uint8_t* images, const uint8_t* labels, int n_images) {
    convolve(images, n_images);
    const double value = head.pass(units, labels, n_images, unit_slopes);
    for (int channel = 0; channel < kChannels; ++channel)
      for (int place = 0; place < kMap * kMap; ++place)
        for (int lane = 0; lane < kLanes; ++lane)
          slopes[channel * kMap * kMap + place][lane] =
              unit_slopes[lane * Dense::kIn + place * kChannels + channel];
    second.back_through_pooling(slopes);
    second.sum_weight_gradient(first.pooled);
    second.back_to_input(inner_slopes);
    first.back_through_pooling(inner_slopes);
    first.sum_weight_gradient(pixels);
    return value;
  }

  // Adds the sums to a flat gradient and sets them to zero.
  void add_gradient(float* parameters) {
    first.add_gradient(parameters);
    second.add_gradient(parameters + First::kParameters);
    head.add_gradient(parameters + First::kParameters + Second::kParameters);
  }
};

using LeNet5 = Classifier<ConvPool<1, 6, 5, 2, 28, TanhThenAverage, 0, false>,
                          ConvPool<6, 16, 5, 0, 14, TanhThenAverage, 0, true>, Head<400, 120, 84, kClasses>>;
using FashionCnn = Classifier<ConvPool<1, 8, 3, 1, 28, MaximumThenTanh, 1, false>,
                              ConvPool<8, 16, 3, 1, 14, MaximumThenTanh, 0, true>, Head<784, 120, kClasses>>;
static_assert(LeNet5::kParameters == 61706 && FashionCnn::kParameters == 96658, "the published counts");

}  // namespace smcda
