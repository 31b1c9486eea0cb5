// Parameter-free batch normalisation between a convolution and its pooling.
//
// The statistics need the whole minibatch, so all its groups finish one layer before any enters the next.
// Normalisation is increasing and commutes with the maximum, so only the maxima and the outputs of the second
// convolution are stored between layers. With x' = (x - mean) * scale and g the gradient of x', the gradient
// of x is scale * (g - mean(g) - x' * mean(g * x')). The bias has gradient zero: the mean cancels it.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "networks.h"

namespace smcda {

// Count, mean and sum of squared deviations, merged in a numerically stable way (Chan et al. 1979).
struct Moments {
  double count = 0, mean = 0, sum_sq_dev = 0;

  void merge(double other_count, double other_mean, double other_sum_sq_dev) {
    const double total = count + other_count, delta = other_mean - mean;
    sum_sq_dev += other_sum_sq_dev + delta * delta * count * other_count / total;
    mean += delta * other_count / total;
    count = total;
  }
};

// A convolution with normalised channels, max pooling and tanh. `conv_out` is not normalised.
template <typename Convolution>
struct Normalised : Convolution {
  using Convolution::conv_out, Convolution::kOut, Convolution::kPooled, Convolution::kRowStride;
  static constexpr int kChannels = Convolution::kChannels, kArea = kOut * kOut;
  static constexpr int kMaxima = kChannels * kPooled * kPooled;
  static constexpr double kEpsilon = 1e-5;

  Moments moments[kChannels];
  float mean[kChannels], scale[kChannels];
  double grad_sums[kChannels], grad_x_sums[kChannels];  // of g and g * x'

  // Starts a new minibatch.
  void reset_statistics() {
    for (Moments& channel : moments) channel = Moments{};
    for (int c = 0; c < kChannels; ++c) grad_sums[c] = grad_x_sums[c] = 0;
  }

  // Adds the outputs of the first `n_images` lanes to the moments.
  void accumulate_statistics(int n_images) {
    for (int c = 0; c < kChannels; ++c) {
      const Vec* out = conv_out + c * kArea;
      const Vec image_mean = sum_of_rows([=](int i) { return out[i]; }) / static_cast<float>(kArea);
      const Vec sum_sq_dev =
          sum_of_rows([=](int i) { return (out[i] - image_mean) * (out[i] - image_mean); });
      for (int image = 0; image < n_images; ++image)
        moments[c].merge(kArea, image_mean[image], sum_sq_dev[image]);
    }
  }

  // Mean and scale from the moments of all images.
  void finalize_statistics() {
    for (int c = 0; c < kChannels; ++c) {
      mean[c] = static_cast<float>(moments[c].mean);
      scale[c] = static_cast<float>(1 / std::sqrt(moments[c].sum_sq_dev / moments[c].count + kEpsilon));
    }
  }

  // Maximum of each 2x2 tile before normalisation, [kChannels][kPooled][kPooled].
  void max_pool(Vec* maxima) const {
    using Pool = MaxPoolTanh;
    for (int c = 0; c < kChannels; ++c)
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) {
          const Vec* tile = conv_out + (c * kOut + 2 * y) * kOut + 2 * x;
          *maxima++ = Pool::max(Pool::max(tile[0], tile[1]), Pool::max(tile[kOut], tile[kOut + 1]));
        }
  }

  // Writes the layer's output to `pooled`: tanh of the normalised maxima.
  void activate(const Vec* maxima) {
    for (int c = 0; c < kChannels; ++c)
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) pooled_at(c, y, x) = tanh((*maxima++ - mean[c]) * scale[c]);
  }

  // Adds to the gradient sums. `pooled` must come from `activate` with the same maxima.
  void accumulate_grad_sums(const Vec* maxima, const Vec* pooled_grads) {
    for (int c = 0; c < kChannels; ++c) {
      Vec total{}, grad_x{};
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) {
          const Vec output = pooled_at(c, y, x), grad = *pooled_grads++ * (1.0f - output * output);
          total += grad;
          grad_x += grad * ((*maxima++ - mean[c]) * scale[c]);
        }
      grad_sums[c] += sum_lanes(total);
      grad_x_sums[c] += sum_lanes(grad_x);
    }
  }

  // Propagates the gradient of `pooled` to the convolution's output. Needs the complete gradient sums.
  void backward(const Vec* pooled_grads, int n_images) {
    this->backward_pool(pooled_grads);
    Mask valid{};
    for (int image = 0; image < n_images; ++image) valid[image] = -1;
    for (int c = 0; c < kChannels; ++c) {
      const float mean_grad = static_cast<float>(grad_sums[c] / moments[c].count);
      const float scaled_mean_grad_x = static_cast<float>(grad_x_sums[c] / moments[c].count) * scale[c];
      for (int y = 0; y < kOut; ++y) {
        Vec* row = this->grad() + (c * kOut + y) * kRowStride + Convolution::kRowPad;
        const Vec* out = conv_out + (c * kOut + y) * kOut;
        for (int x = 0; x < kOut; ++x)
          row[x] = valid ? scale[c] * (row[x] - mean_grad - (out[x] - mean[c]) * scaled_mean_grad_x) : Vec{};
      }
    }
  }

  void add_grad(float* flat) {
    std::fill_n(this->bias_grads, kChannels, Vec{});
    Convolution::add_grad(flat);
  }

  // Sums row by row: in one long sum over a constant background, rounding errors would share a sign.
  template <typename Term>
  static Vec sum_of_rows(Term term) {
    Vec total{};
    for (int y = 0; y < kOut; ++y) {
      Vec row{};
      for (int x = 0; x < kOut; ++x) row += term(y * kOut + x);
      total += row;
    }
    return total;
  }

  Vec& pooled_at(int channel, int y, int x) {
    return *this->at(this->pooled, Convolution::kPooledStride, Convolution::kNextPad, channel, y, x);
  }
};

// Two normalised stages, then dense layers; evaluates a minibatch group by group.
template <typename First, typename Second, typename Top>
struct NormalisedClassifier : Classifier<Normalised<First>, Normalised<Second>, Top> {
  using Base = Classifier<Normalised<First>, Normalised<Second>, Top>;
  using Base::first, Base::second, Base::pixels, Base::load_images;

  // State of a group of images between layers.
  struct Group {
    const uint8_t* images;
    int n_images;
    alignas(64) Vec first_maxima[Normalised<First>::kMaxima], first_grads[Normalised<First>::kMaxima];
    alignas(64) Vec second_conv_out[sizeof(Second::conv_out) / sizeof(Vec)];
    alignas(64) Vec second_maxima[Normalised<Second>::kMaxima], second_grads[Normalised<Second>::kMaxima];
  };
  std::vector<Group> groups;

  // Computes the statistics of `n_images` images and stores their groups.
  void compute_statistics(const uint8_t* images, int n_images) {
    groups.resize((n_images + kLanes - 1) / kLanes);
    first.reset_statistics();
    second.reset_statistics();
    for (size_t g = 0; g < groups.size(); ++g) {
      const int before = static_cast<int>(g) * kLanes;
      groups[g].images = images + static_cast<size_t>(before) * kSide * kSide;
      groups[g].n_images = std::min(kLanes, n_images - before);
      load_images(groups[g].images, groups[g].n_images);
      first.convolve(pixels);
      first.accumulate_statistics(groups[g].n_images);
      first.max_pool(groups[g].first_maxima);
    }
    first.finalize_statistics();
    for (Group& group : groups) {
      first.activate(group.first_maxima);
      second.convolve(first.pooled);
      second.accumulate_statistics(group.n_images);
      second.max_pool(group.second_maxima);
      std::copy_n(second.conv_out, std::size(group.second_conv_out), group.second_conv_out);
    }
    second.finalize_statistics();
  }

  // Returns the log-likelihood of the first `n_counted` images of a minibatch; the layers accumulate its
  // gradient. All images enter the statistics.
  double forward_backward(const uint8_t* images, const uint8_t* labels, int n_images, int n_counted) {
    double value = 0;
    compute_statistics(images, n_images);
    for (Group& group : groups) {
      second.activate(group.second_maxima);
      this->flatten();
      const int counted = std::max(0, std::min(group.n_images, n_counted));
      value += this->head_forward_backward(labels, counted, group.second_grads);
      second.accumulate_grad_sums(group.second_maxima, group.second_grads);
      labels += group.n_images;
      n_counted -= group.n_images;
    }
    for (Group& group : groups) {
      std::copy_n(group.second_conv_out, std::size(group.second_conv_out), second.conv_out);
      second.activate(group.second_maxima);
      second.backward(group.second_grads, group.n_images);
      first.activate(group.first_maxima);
      second.accumulate_weight_grad(first.pooled);
      second.backward_input(group.first_grads);
      first.accumulate_grad_sums(group.first_maxima, group.first_grads);
    }
    for (Group& group : groups) {
      load_images(group.images, group.n_images);
      first.convolve(pixels);
      first.activate(group.first_maxima);
      first.backward(group.first_grads, group.n_images);
      first.accumulate_weight_grad(pixels);
    }
    return value;
  }

  // Logits of at most kLanes images with the statistics computed last. Overwrites the first group.
  void logits(const uint8_t* images, int n_images, float* output) {
    load_images(images, n_images);
    first.convolve(pixels);
    first.max_pool(groups[0].first_maxima);
    first.activate(groups[0].first_maxima);
    second.convolve(first.pooled);
    second.max_pool(groups[0].second_maxima);
    second.activate(groups[0].second_maxima);
    this->flatten();
    this->write_logits(n_images, output);
  }
};

// The first stage has `InputGrad` set only because `backward` reads `conv_out` while it writes the gradient.
using NormalisedFashionCnn =
    NormalisedClassifier<ConvPool<1, 8, 3, 1, 28, MaxPoolTanh, 1, true>,
                         ConvPool<8, 16, 3, 1, 14, MaxPoolTanh, 0, true>, Head<784, 120, kClasses>>;
static_assert(NormalisedFashionCnn::kParameters == FashionCnn::kParameters, "no parameters of its own");

}  // namespace smcda
