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
  static constexpr int kIn = In, kParameters = Dense<In, Out>::kParameters + Head<Out, Rest...>::kParameters;

  Dense<In, Out> layer;
  Head<Out, Rest...> rest;
  Vec slopes[Out];

  void load(const float* parameters) {
    layer.load(parameters);
    rest.load(parameters + layer.kParameters);
  }

  const Vec* forward() {
    layer.forward([&](int out, Vec sum) { rest.layer.input()[out * rest.layer.kHeld] = tanh(sum); });
    return rest.forward();
  }

  // The log-likelihood; `finish(unit, slope)` takes the slopes of the input.
  template <typename Finish>
  double pass(const uint8_t* labels, int n_images, Finish finish) {
    layer.forward([&](int out, Vec sum) { rest.layer.input()[out * rest.layer.kHeld] = tanh(sum); });
    const Vec* units = rest.layer.input();
    const double value = rest.pass(labels, n_images, [&](int unit, Vec slope) {
      const Vec kept = units[unit * rest.layer.kHeld];
      slopes[unit] = slope * (1.0f - kept * kept);
    });
    layer.back(slopes, finish);
    return value;
  }

  void add_gradient(float* parameters) {
    layer.add_gradient(parameters);
    rest.add_gradient(parameters + layer.kParameters);
  }
};

template <int In, int Out>
struct Head<In, Out> {
  static constexpr int kParameters = Dense<In, Out>::kParameters;

  Dense<In, Out> layer;
  Vec logits[Out], slopes[Out];

  void load(const float* parameters) { layer.load(parameters); }

  const Vec* forward() {
    layer.forward([&](int out, Vec sum) { logits[out] = sum; });
    return logits;
  }

  // The sum over images of the log-probability of their labels; images from `n_images` on do not count.
  template <typename Finish>
  double pass(const uint8_t* labels, int n_images, Finish finish) {
    forward();
    double value = 0;
    for (int out = 0; out < Out; ++out) slopes[out] = Vec{};
    for (int image = 0; image < n_images; ++image) {
      float most = logits[0][image], total = 0, part[Out];
      for (int c = 1; c < Out; ++c) most = logits[c][image] > most ? logits[c][image] : most;
      for (int c = 0; c < Out; ++c) total += part[c] = std::exp(logits[c][image] - most);
      for (int c = 0; c < Out; ++c) slopes[c][image] = (c == labels[image]) - part[c] / total;
      value += logits[labels[image]][image] - most - std::log(total);
    }
    layer.back(slopes, finish);
    return value;
  }

  void add_gradient(float* parameters) { layer.add_gradient(parameters); }
};

// Two stages of convolution and pooling, then dense layers: the shape of both networks.
template <typename First, typename Second, typename Top>
struct Classifier {
  static constexpr int kParameters = First::kParameters + Second::kParameters + Top::kParameters;
  static constexpr int kInner = First::kChannels, kChannels = Second::kChannels, kMap = Second::kPooled;

  First first;
  Second second;
  Top head;
  alignas(64) Vec pixels[First::kWide * First::kWide], slopes[kChannels * kMap * kMap];
  alignas(64) Vec inner_slopes[kInner * First::kPooled * First::kPooled];
  float brightness[256];

  // Takes the particle's weights; sums start at zero.
  void load(const float* parameters) {
    for (int level = 0; level < 256; ++level) brightness[level] = level / 255.0f;
    first.load(parameters);
    second.load(parameters + First::kParameters);
    head.load(parameters + First::kParameters + Second::kParameters);
  }

  // At most kLanes images, a lane each; the other lanes keep what they had.
  void take(const uint8_t* images, int n_images) {
    constexpr int border = (First::kWide - kSide) / 2;
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) {
        Vec& pixel = pixels[(y + border) * First::kWide + x + border];
        for (int lane = 0; lane < n_images; ++lane)
          pixel[lane] = brightness[images[(lane * kSide + y) * kSide + x]];
      }
  }

  // From the last pooling to the dense layers. Flax flattens [y][x][channel].
  void flatten() {
    for (int place = 0; place < kMap * kMap; ++place)
      for (int channel = 0; channel < kChannels; ++channel)
        head.layer.input()[(place * kChannels + channel) * head.layer.kHeld] =
            second.pooled[channel * kMap * kMap + place];
  }

  // Up to the dense layers, for at most kLanes images.
  void convolve(const uint8_t* images, int n_images) {
    take(images, n_images);
    first.forward(pixels);
    second.forward(first.pooled);
    flatten();
  }

  // Logits of at most kLanes images, [image][kClasses].
  void logits(const uint8_t* images, int n_images, float* output) {
    convolve(images, n_images);
    write_logits(n_images, output);
  }

  void write_logits(int n_images, float* output) {
    const Vec* rows = head.forward();
    for (int image = 0; image < n_images; ++image)
      for (int c = 0; c < kClasses; ++c) output[image * kClasses + c] = rows[c][image];
  }

  // Log-likelihood of at most kLanes images; its gradient is added to the sums kept in the layers.
  double pass(const uint8_t* images, const uint8_t* labels, int n_images) {
    convolve(images, n_images);
    const double value = pass_head(labels, n_images, slopes);
    second.back_through_pooling(slopes);
    second.sum_weight_gradient(first.pooled);
    second.back_to_input(inner_slopes);
    first.back_through_pooling(inner_slopes);
    first.sum_weight_gradient(pixels);
    return value;
  }

  // The dense layers' part of it; `slopes` are those of the last pooling, [kChannels][kMap][kMap].
  double pass_head(const uint8_t* labels, int n_images, Vec* slopes) {
    return head.pass(labels, n_images, [&](int unit, Vec slope) {
      slopes[unit % kChannels * kMap * kMap + unit / kChannels] = slope;
    });
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
