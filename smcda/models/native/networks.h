// The networks: log-likelihood of a group of images and its gradient, for one particle.
#pragma once

#include <cmath>
#include <cstdint>

#include "layers.h"

namespace smcda {

constexpr int kSide = 28, kClasses = 10;

// Dense layers with tanh between them and a softmax at the end, e.g. Head<400, 120, 84, 10>.
template <int In, int Out, int... Rest>
struct Head {
  static constexpr int kIn = In, kParameters = Dense<In, Out>::kParameters + Head<Out, Rest...>::kParameters;

  Dense<In, Out> layer;
  Head<Out, Rest...> rest;
  Vec grads[Out];

  void load(const float* parameters) {
    layer.load(parameters);
    rest.load(parameters + layer.kParameters);
  }

  const Vec* forward() {
    layer.forward([&](int out, Vec sum) { rest.layer.input()[out * rest.layer.kMaxBuffered] = tanh(sum); });
    return rest.forward();
  }

  // Returns the log-likelihood; `store(unit, grad)` receives the gradient of the input.
  template <typename Store>
  double forward_backward(const uint8_t* labels, int n_images, Store store) {
    layer.forward([&](int out, Vec sum) { rest.layer.input()[out * rest.layer.kMaxBuffered] = tanh(sum); });
    const Vec* units = rest.layer.input();
    const double value = rest.forward_backward(labels, n_images, [&](int unit, Vec grad) {
      const Vec activation = units[unit * rest.layer.kMaxBuffered];
      grads[unit] = grad * (1.0f - activation * activation);
    });
    layer.backward(grads, store);
    return value;
  }

  void add_grad(float* flat) {
    layer.add_grad(flat);
    rest.add_grad(flat + layer.kParameters);
  }
};

template <int In, int Out>
struct Head<In, Out> {
  static constexpr int kParameters = Dense<In, Out>::kParameters;

  Dense<In, Out> layer;
  Vec logits[Out], grads[Out];

  void load(const float* parameters) { layer.load(parameters); }

  const Vec* forward() {
    layer.forward([&](int out, Vec sum) { logits[out] = sum; });
    return logits;
  }

  // Sum of the log-probabilities of the labels of the first `n_images` lanes; other lanes do not count.
  template <typename Store>
  double forward_backward(const uint8_t* labels, int n_images, Store store) {
    forward();
    double value = 0;
    for (int out = 0; out < Out; ++out) grads[out] = Vec{};
    for (int image = 0; image < n_images; ++image) {
      float max_logit = logits[0][image], sum_exp = 0, exp_logit[Out];
      for (int c = 1; c < Out; ++c) max_logit = logits[c][image] > max_logit ? logits[c][image] : max_logit;
      for (int c = 0; c < Out; ++c) sum_exp += exp_logit[c] = std::exp(logits[c][image] - max_logit);
      for (int c = 0; c < Out; ++c) grads[c][image] = (c == labels[image]) - exp_logit[c] / sum_exp;
      value += logits[labels[image]][image] - max_logit - std::log(sum_exp);
    }
    layer.backward(grads, store);
    return value;
  }

  void add_grad(float* flat) { layer.add_grad(flat); }
};

// Two stages of convolution and pooling, then dense layers: the architecture of both networks.
template <typename First, typename Second, typename Top>
struct Classifier {
  static constexpr int kParameters = First::kParameters + Second::kParameters + Top::kParameters;
  static constexpr int kFirstChannels = First::kChannels, kChannels = Second::kChannels;
  static constexpr int kMapSize = Second::kPooled;

  First first;
  Second second;
  Top head;
  alignas(64) Vec pixels[First::kPadded * First::kPadded], second_grads[kChannels * kMapSize * kMapSize];
  alignas(64) Vec first_grads[kFirstChannels * First::kPooled * First::kPooled];
  float pixel_value[256];

  // Copies the particle's parameters. Expects gradient sums of zero, as `add_grad` leaves them.
  void load(const float* parameters) {
    for (int level = 0; level < 256; ++level) pixel_value[level] = level / 255.0f;
    first.load(parameters);
    second.load(parameters + First::kParameters);
    head.load(parameters + First::kParameters + Second::kParameters);
  }

  // Loads at most kLanes images, one per lane; other lanes keep their pixels.
  void load_images(const uint8_t* images, int n_images) {
    constexpr int border = (First::kPadded - kSide) / 2;
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) {
        Vec& pixel = pixels[(y + border) * First::kPadded + x + border];
        for (int lane = 0; lane < n_images; ++lane)
          pixel[lane] = pixel_value[images[(lane * kSide + y) * kSide + x]];
      }
  }

  // Copies the last pooled maps to the dense layers in Flax's order, [y][x][channel].
  void flatten() {
    for (int position = 0; position < kMapSize * kMapSize; ++position)
      for (int channel = 0; channel < kChannels; ++channel)
        head.layer.input()[(position * kChannels + channel) * head.layer.kMaxBuffered] =
            second.pooled[channel * kMapSize * kMapSize + position];
  }

  // Forward pass up to the dense layers, for at most kLanes images.
  void convolve(const uint8_t* images, int n_images) {
    load_images(images, n_images);
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
    const Vec* logits = head.forward();
    for (int image = 0; image < n_images; ++image)
      for (int c = 0; c < kClasses; ++c) output[image * kClasses + c] = logits[c][image];
  }

  // Returns the log-likelihood of at most kLanes images; the layers accumulate its gradient.
  double forward_backward(const uint8_t* images, const uint8_t* labels, int n_images) {
    convolve(images, n_images);
    const double value = head_forward_backward(labels, n_images, second_grads);
    second.backward_pool(second_grads);
    second.accumulate_weight_grad(first.pooled);
    second.backward_input(first_grads);
    first.backward_pool(first_grads);
    first.accumulate_weight_grad(pixels);
    return value;
  }

  // The same for the dense layers only; writes the gradient of the last pooled maps, [kChannels][y][x].
  double head_forward_backward(const uint8_t* labels, int n_images, Vec* grads) {
    return head.forward_backward(labels, n_images, [&](int unit, Vec grad) {
      grads[unit % kChannels * kMapSize * kMapSize + unit / kChannels] = grad;
    });
  }

  // Adds the sums to a flat gradient and resets them.
  void add_grad(float* flat) {
    first.add_grad(flat);
    second.add_grad(flat + First::kParameters);
    head.add_grad(flat + First::kParameters + Second::kParameters);
  }
};

using LeNet5 = Classifier<ConvPool<1, 6, 5, 2, 28, TanhMeanPool, 0, false>,
                          ConvPool<6, 16, 5, 0, 14, TanhMeanPool, 0, true>, Head<400, 120, 84, kClasses>>;
using FashionCnn = Classifier<ConvPool<1, 8, 3, 1, 28, MaxPoolTanh, 1, false>,
                              ConvPool<8, 16, 3, 1, 14, MaxPoolTanh, 0, true>, Head<784, 120, kClasses>>;
static_assert(LeNet5::kParameters == 61706 && FashionCnn::kParameters == 96658, "published counts");

}  // namespace smcda
