// Batch normalisation between a convolution and its pooling.
//
// Statistics belong to a minibatch, so one group of images can't go through the whole network before the next
// begins: all of them take each step together. Normalising keeps the order of numbers, hence it commutes with
// the maximum, and only the maxima and the outputs of the second convolution are kept in between. With
// x' = (x - mean) * scale, the slope of x is scale * (g - mean of g - x' * mean of g x'), g being that of x'.
// Nothing reaches the bias, which the mean takes away.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "networks.h"

namespace smcda {

// Mean and squared deviations of a growing set of numbers, joined without loss of digits.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void join(double other_count, double other_mean, double other_squares) {
    const double both = count + other_count, apart = other_mean - mean;
    squares += other_squares + apart * apart * count * other_count / both;
    mean += apart * other_count / both;
    count = both;
  }
};

// A convolution with max pooling and tanh whose outputs are normalised, channel by channel. `kept` holds them
// as they come out of the convolution.
template <typename Convolution>
struct Normalised : Convolution {
  using Convolution::kept, Convolution::kOut, Convolution::kPooled, Convolution::kRow;
  static constexpr int kChannels = Convolution::kChannels, kArea = kOut * kOut;
  static constexpr int kMaxima = kChannels * kPooled * kPooled;
  static constexpr double kLeastVariance = 1e-5;

  Moments moments[kChannels];
  float mean[kChannels], scale[kChannels];
  double slopes[kChannels], slopes_times_x[kChannels];

  // A new minibatch begins.
  void begin() {
    for (Moments& channel : moments) channel = Moments{};
    for (int c = 0; c < kChannels; ++c) slopes[c] = slopes_times_x[c] = 0;
  }

  // Takes in the outputs of the first `n_images` lanes.
  void measure(int n_images) {
    for (int c = 0; c < kChannels; ++c) {
      const Vec* outputs = kept + c * kArea;
      const Vec middle = sum_of_rows([=](int i) { return outputs[i]; }) / static_cast<float>(kArea);
      const Vec squares = sum_of_rows([=](int i) { return (outputs[i] - middle) * (outputs[i] - middle); });
      for (int image = 0; image < n_images; ++image) moments[c].join(kArea, middle[image], squares[image]);
    }
  }

  // All images are measured.
  void settle() {
    for (int c = 0; c < kChannels; ++c) {
      mean[c] = static_cast<float>(moments[c].mean);
      scale[c] = static_cast<float>(1 / std::sqrt(moments[c].squares / moments[c].count + kLeastVariance));
    }
  }

  // The largest output of each tile, [kChannels][kPooled][kPooled].
  void find_maxima(Vec* maxima) const {
    using Order = MaximumThenTanh;
    for (int c = 0; c < kChannels; ++c)
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) {
          const Vec* tile = kept + (c * kOut + 2 * y) * kOut + 2 * x;
          *maxima++ = Order::larger(Order::larger(tile[0], tile[1]), Order::larger(tile[kOut], tile[kOut + 1]));
        }
  }

  // Normalises the maxima; the layer's output is then in `pooled`.
  void activate(const Vec* maxima) {
    for (int c = 0; c < kChannels; ++c)
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) pooled_at(c, y, x) = tanh((*maxima++ - mean[c]) * scale[c]);
  }

  // Takes in the slopes of `pooled`, which `activate` has just made from the same maxima.
  void measure_slopes(const Vec* maxima, const Vec* pooled_slopes) {
    for (int c = 0; c < kChannels; ++c) {
      Vec total{}, times_x{};
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) {
          const Vec output = pooled_at(c, y, x), slope = *pooled_slopes++ * (1.0f - output * output);
          total += slope;
          times_x += slope * ((*maxima++ - mean[c]) * scale[c]);
        }
      slopes[c] += sum_of_lanes(total);
      slopes_times_x[c] += sum_of_lanes(times_x);
    }
  }

  // From the slopes of `pooled` to those of the convolution's outputs, when all slopes are measured.
  void back(const Vec* pooled_slopes, int n_images) {
    this->back_through_pooling(pooled_slopes);
    Mask present{};
    for (int image = 0; image < n_images; ++image) present[image] = -1;
    for (int c = 0; c < kChannels; ++c) {
      const float common = static_cast<float>(slopes[c] / moments[c].count);
      const float along_x = static_cast<float>(slopes_times_x[c] / moments[c].count) * scale[c];
      for (int y = 0; y < kOut; ++y) {
        Vec* row = this->gradient() + (c * kOut + y) * kRow + Convolution::kBeside;
        const Vec* outputs = kept + (c * kOut + y) * kOut;
        for (int x = 0; x < kOut; ++x)
          row[x] = present ? scale[c] * (row[x] - common - (outputs[x] - mean[c]) * along_x) : Vec{};
      }
    }
  }

  void add_gradient(float* parameters) {
    std::fill_n(this->bias_sums, kChannels, Vec{});
    Convolution::add_gradient(parameters);
  }

  // Row by row: a background that is the same all over would else lose digits in one direction.
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
    return *this->at(this->pooled, Convolution::kPooledWide, Convolution::kNextPad, channel, y, x);
  }
};

// Two normalised stages and dense layers. Its arithmetic is that of a minibatch, group after group.
template <typename First, typename Second, typename Top>
struct NormalisedClassifier : Classifier<Normalised<First>, Normalised<Second>, Top> {
  using Base = Classifier<Normalised<First>, Normalised<Second>, Top>;
  using Base::first, Base::second, Base::pixels, Base::take;

  // What is kept of a group of images between one step and the next.
  struct Group {
    const uint8_t* images;
    int n_images;
    alignas(64) Vec maxima[Normalised<First>::kMaxima], slopes[Normalised<First>::kMaxima];
    alignas(64) Vec outputs[sizeof(Second::kept) / sizeof(Vec)];
    alignas(64) Vec outer_maxima[Normalised<Second>::kMaxima], outer_slopes[Normalised<Second>::kMaxima];
  };
  std::vector<Group> groups;

  // Learns the statistics of `n_images` images, and keeps their groups.
  void measure(const uint8_t* images, int n_images) {
    groups.resize((n_images + kLanes - 1) / kLanes);
    first.begin();
    second.begin();
    for (size_t g = 0; g < groups.size(); ++g) {
      const int before = static_cast<int>(g) * kLanes;
      groups[g].images = images + static_cast<size_t>(before) * kSide * kSide;
      groups[g].n_images = std::min(kLanes, n_images - before);
      take(groups[g].images, groups[g].n_images);
      first.convolve(pixels);
      first.measure(groups[g].n_images);
      first.find_maxima(groups[g].maxima);
    }
    first.settle();
    for (Group& group : groups) {
      first.activate(group.maxima);
      second.convolve(first.pooled);
      second.measure(group.n_images);
      second.find_maxima(group.outer_maxima);
      std::copy_n(second.kept, std::size(group.outputs), group.outputs);
    }
    second.settle();
  }

  // Log-likelihood of the first `n_counted` of a minibatch; its gradient is added to the sums in the layers.
  double pass(const uint8_t* images, const uint8_t* labels, int n_images, int n_counted) {
    double value = 0;
    measure(images, n_images);
    for (Group& group : groups) {
      second.activate(group.outer_maxima);
      this->flatten();
      const int counted = std::max(0, std::min(group.n_images, n_counted));
      value += this->pass_head(labels, counted, group.outer_slopes);
      second.measure_slopes(group.outer_maxima, group.outer_slopes);
      labels += group.n_images;
      n_counted -= group.n_images;
    }
    for (Group& group : groups) {
      std::copy_n(group.outputs, std::size(group.outputs), second.kept);
      second.activate(group.outer_maxima);
      second.back(group.outer_slopes, group.n_images);
      first.activate(group.maxima);
      second.sum_weight_gradient(first.pooled);
      second.back_to_input(group.slopes);
      first.measure_slopes(group.maxima, group.slopes);
    }
    for (Group& group : groups) {
      take(group.images, group.n_images);
      first.convolve(pixels);
      first.activate(group.maxima);
      first.back(group.slopes, group.n_images);
      first.sum_weight_gradient(pixels);
    }
    return value;
  }

  // Logits of at most kLanes images by the statistics that were measured last.
  void logits(const uint8_t* images, int n_images, float* output) {
    take(images, n_images);
    first.convolve(pixels);
    first.find_maxima(groups[0].maxima);
    first.activate(groups[0].maxima);
    second.convolve(first.pooled);
    second.find_maxima(groups[0].outer_maxima);
    second.activate(groups[0].outer_maxima);
    this->flatten();
    this->write_logits(n_images, output);
  }
};

// The first stage too keeps its gradient apart from its outputs, which are still needed beside it.
using NormalisedFashionCnn =
    NormalisedClassifier<ConvPool<1, 8, 3, 1, 28, MaximumThenTanh, 1, true>,
                         ConvPool<8, 16, 3, 1, 14, MaximumThenTanh, 0, true>, Head<784, 120, kClasses>>;
static_assert(NormalisedFashionCnn::kParameters == FashionCnn::kParameters, "no parameters of its own");

}  // namespace smcda
