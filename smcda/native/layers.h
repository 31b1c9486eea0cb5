// The layers, forward and backward, for one particle and a group of kLanes images.
//
// Images are in the lanes: an activation map is [channel][y][x] of vectors, so that a shifted row of it is
// contiguous and every weight is one number times whole vectors. Only the weight gradient of a dense layer, a
// sum over images, has units in its lanes. Parameters come in Flax's order, a layer's bias before its kernel.
#pragma once

#include "vectors.h"

namespace smcda {

// Tanh, then the mean of each 2x2 tile. What is kept of the forward pass is the tanh.
struct TanhThenAverage {
  static Vec activate(Vec x) { return tanh(x); }
  static Vec pool(Vec a, Vec b, Vec c, Vec d) { return 0.25f * ((a + b) + (c + d)); }
  static void back(Vec gradient, Vec, Vec* tile) {
    for (int i = 0; i < 4; ++i) tile[i] = 0.25f * gradient * (1.0f - tile[i] * tile[i]);
  }
};

// The maximum of each 2x2 tile, then tanh (the same as the other way round, at a quarter of the cost).
// Equal maxima share the gradient equally, pair by pair, as they do in JAX.
struct MaximumThenTanh {
  static Vec activate(Vec x) { return x; }
  static Vec larger(Vec a, Vec b) { return a > b ? a : b; }
  static Vec pool(Vec a, Vec b, Vec c, Vec d) { return tanh(larger(larger(a, b), larger(c, d))); }
  static Vec share(Vec a, Vec b) { return a > b ? spread(1.0f) : (a == b ? spread(0.5f) : Vec{}); }
  static void back(Vec gradient, Vec pooled, Vec* tile) {
    gradient *= 1.0f - pooled * pooled;
    const Vec first = share(tile[0], tile[1]), third = share(tile[2], tile[3]);
    const Vec upper = gradient * share(larger(tile[0], tile[1]), larger(tile[2], tile[3]));
    const Vec lower = gradient - upper;
    tile[0] = upper * first;
    tile[1] = upper - tile[0];
    tile[2] = lower * third;
    tile[3] = lower - tile[2];
  }
};

// A K x K convolution over `Size` x `Size` maps with `Pad` zeros around them, its activation, and 2x2 pooling.
// `NextPad` zeros surround the pooled maps, for the next convolution to read. The first convolution has no
// use for the gradient of its input (`Inner` false).
template <int In, int Out, int K, int Pad, int Size, typename Pooling, int NextPad, bool Inner>
struct ConvPool {
  static constexpr int kWide = Size + 2 * Pad, kOut = kWide - K + 1, kPooled = kOut / 2;
  static constexpr int kChannels = Out, kNextPad = NextPad, kPooledWide = kPooled + 2 * NextPad;
  static constexpr int kTaps = K * K, kWeights = kTaps * In * Out, kParameters = Out + kWeights;
  // Zeros beside each row of the gradient, so that the input's gradient needs no special case in x.
  static constexpr int kBeside = Inner ? K - 1 - Pad : 0, kRow = kOut + 2 * kBeside;

  alignas(64) Vec kept[Out * kOut * kOut];
  alignas(64) Vec pooled[Out * kPooledWide * kPooledWide];
  alignas(64) Vec gradient_beside[Inner ? Out * kOut * kRow : 1];
  alignas(64) Vec weight_sums[kWeights];
  Vec bias_sums[Out];
  float kernel[kWeights], kernel_back[kWeights], bias[Out];
  int offsets[kTaps * In], offsets_back[kTaps * Out];

  // Without zeros beside it, the gradient takes the place of what was kept.
  Vec* gradient() { return Inner ? gradient_beside : kept; }

  static Vec* at(Vec* maps, int wide, int pad, int channel, int y, int x) {
    return maps + (channel * wide + y + pad) * wide + x + pad;
  }

  void load(const float* parameters) {
    std::memcpy(bias, parameters, sizeof(bias));
    std::memcpy(kernel, parameters + Out, sizeof(kernel));
    for (int tap = 0; tap < kTaps; ++tap) {
      const int y = tap / K, x = tap % K;
      for (int in = 0; in < In; ++in) offsets[tap * In + in] = ((in * kWide + y) * kWide + x) * kLanes;
      for (int out = 0; out < Out; ++out) {
        offsets_back[tap * Out + out] = (out * kOut * kRow - y * kRow - x) * kLanes;
        for (int in = 0; in < In; ++in)
          kernel_back[(tap * Out + out) * In + in] = kernel[(tap * In + in) * Out + out];
      }
    }
  }

  void forward(const Vec* input) {
    convolve(input);
    for (int out = 0; out < Out; ++out)
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) {
          const Vec* tile = kept + (out * kOut + 2 * y) * kOut + 2 * x;
          *at(pooled, kPooledWide, NextPad, out, y, x) =
              Pooling::pool(tile[0], tile[1], tile[kOut], tile[kOut + 1]);
        }
  }

  // `input` is padded: [In][kWide][kWide].
  void convolve(const Vec* input) {
    for (int y = 0; y < kOut; ++y)
      product<Out, kOut>(
          Left{kernel, 1, Out}, reinterpret_cast<const float*>(input + y * kWide), offsets, kTaps * In,
          [&](int out, int) { return spread(bias[out]); },
          [&](int out, int x, Vec sum) { kept[(out * kOut + y) * kOut + x] = Pooling::activate(sum); });
  }

  // From the gradient of the pooled maps, [Out][kPooled][kPooled], to that of the convolution's output.
  void back_through_pooling(const Vec* pooled_gradient) {
    for (int out = 0; out < Out; ++out) {
      Vec total = bias_sums[out];
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) {
          const Vec* from = kept + (out * kOut + 2 * y) * kOut + 2 * x;
          Vec tile[4] = {from[0], from[1], from[kOut], from[kOut + 1]};
          Pooling::back(pooled_gradient[(out * kPooled + y) * kPooled + x],
                        *at(pooled, kPooledWide, NextPad, out, y, x), tile);
          Vec* to = gradient() + (out * kOut + 2 * y) * kRow + kBeside + 2 * x;
          to[0] = tile[0], to[1] = tile[1], to[kRow] = tile[2], to[kRow + 1] = tile[3];
          total += (tile[0] + tile[1]) + (tile[2] + tile[3]);
        }
      bias_sums[out] = total;
    }
  }

  // Outputs whose slopes are used at once, and rows of them that a small cache holds.
  static constexpr int kAtOnce = best_tile(K, Out).rows == K ? best_tile(K, Out).vectors : 1;
  static constexpr int rows_at_once() {
    int rows = 1;
    for (int r = 1; r <= kOut; ++r)
      if (kOut % r == 0 && r * kRow * kAtOnce * sizeof(Vec) <= 32 * 1024) rows = r;
    return rows;
  }

  // Adds this group's part to `weight_sums`, a sum for each lane; `add_gradient` brings lanes together.
  void sum_weight_gradient(const Vec* input) {
    constexpr int kRows = rows_at_once();
    for (int from = 0; from < kOut; from += kRows)
      for (int out = 0; out < Out; out += kAtOnce)
        for (int in = 0; in < In; ++in)
          for (int tap_y = 0; tap_y < K; ++tap_y) {
            Vec* sums = weight_sums + (tap_y * K * In + in) * Out + out;
            Vec sum[K][kAtOnce];
            for (int tap = 0; tap < K; ++tap)
              for (int o = 0; o < kAtOnce; ++o) sum[tap][o] = sums[tap * In * Out + o];
            for (int y = from; y < from + kRows; ++y) {
              const Vec* row = input + (in * kWide + y + tap_y) * kWide;
              const Vec* slope = gradient() + (out * kOut + y) * kRow + kBeside;
              for (int x = 0; x < kOut; ++x) {
                Vec factor[kAtOnce];
                for (int o = 0; o < kAtOnce; ++o) factor[o] = slope[o * kOut * kRow + x];
                for (int tap = 0; tap < K; ++tap) {
                  const Vec pixel = row[x + tap];
                  for (int o = 0; o < kAtOnce; ++o) sum[tap][o] += pixel * factor[o];
                }
              }
            }
            for (int tap = 0; tap < K; ++tap)
              for (int o = 0; o < kAtOnce; ++o) sums[tap * In * Out + o] = sum[tap][o];
          }
  }

  // The gradient of the input maps without their padding, [In][Size][Size].
  void back_to_input(Vec* input_gradient) const {
    for (int y = 0; y < Size; ++y) {
      // Only the kernel's rows that meet the output: 0 <= y + Pad - tap_y < kOut.
      const int first = y + Pad - kOut + 1 > 0 ? y + Pad - kOut + 1 : 0;
      const int last = y + Pad < K - 1 ? y + Pad : K - 1;
      const int skipped = first * K * Out, n_k = (last - first + 1) * K * Out;
      product<In, Size>(
          Left{kernel_back + skipped * In, 1, In},
          reinterpret_cast<const float*>(gradient_beside + (y + Pad) * kRow + kBeside + Pad), offsets_back + skipped,
          n_k, [](int, int) { return Vec{}; },
          [&](int in, int x, Vec sum) { input_gradient[(in * Size + y) * Size + x] = sum; });
    }
  }

  void add_gradient(float* parameters) {
    for (int i = 0; i < Out; ++i) parameters[i] += sum_of_lanes(bias_sums[i]);
    for (int i = 0; i < kWeights; ++i) parameters[Out + i] += sum_of_lanes(weight_sums[i]);
    std::memset(static_cast<void*>(bias_sums), 0, sizeof(bias_sums));
    std::memset(static_cast<void*>(weight_sums), 0, sizeof(weight_sums));
  }
};

// An affine map. Its weights are read where they lie for the passes; the sums of their gradient are larger
// than a cache is fast, so inputs and slopes of kHeld groups of images are held back and summed together.
template <int In, int Out>
struct Dense {
  static constexpr int kHeld = 4, kOut = round_up(Out), kParameters = Out + In * Out;

  alignas(64) Vec inputs[In * kHeld];  // [unit][group]: for each unit, the images of all groups in a row
  alignas(64) float slopes[kHeld * kLanes * kOut];  // [image][unit], padded with zeros
  alignas(64) float weight_sums[In * kOut], bias_sums[kOut];
  float bias[Out], weights[In * Out];
  int offsets[In], offsets_back[Out], offsets_image[kHeld * kLanes];
  int held;

  void load(const float* parameters) {
    std::memcpy(bias, parameters, sizeof(bias));
    std::memcpy(weights, parameters + Out, sizeof(weights));
    for (int in = 0; in < In; ++in) offsets[in] = in * kHeld * kLanes;
    for (int out = 0; out < Out; ++out) offsets_back[out] = out * kLanes;
    for (int image = 0; image < kHeld * kLanes; ++image) offsets_image[image] = image * kOut;
  }

  // Where the next group's input belongs: unit i at `input()[i * kHeld]`.
  Vec* input() { return inputs + held; }

  template <typename Finish>
  void forward(Finish finish) const {
    product<Out, 1>(
        Left{weights, 1, Out}, reinterpret_cast<const float*>(inputs + held), offsets, In,
        [&](int out, int) { return spread(bias[out]); }, [&](int out, int, Vec sum) { finish(out, sum); });
  }

  // From the slopes of the outputs, one vector each, to those of the inputs.
  template <typename Finish>
  void back(const Vec* output_slopes, Finish finish) {
    product<In, 1>(
        Left{weights, Out, 1}, reinterpret_cast<const float*>(output_slopes), offsets_back, Out,
        [](int, int) { return Vec{}; }, [&](int in, int, Vec sum) { finish(in, sum); });
    for (int lane = 0; lane < kLanes; ++lane)
      for (int out = 0; out < Out; ++out) slopes[(held * kLanes + lane) * kOut + out] = output_slopes[out][lane];
    if (++held == kHeld) sum_weight_gradient();
  }

  void sum_weight_gradient() {
    Vec* sums = reinterpret_cast<Vec*>(weight_sums);
    product<In, kOut / kLanes>(
        Left{reinterpret_cast<const float*>(inputs), kHeld * kLanes, 1}, slopes, offsets_image, held * kLanes,
        [&](int in, int v) { return sums[in * (kOut / kLanes) + v]; },
        [&](int in, int v, Vec sum) { sums[in * (kOut / kLanes) + v] = sum; });
    for (int image = 0; image < held * kLanes; ++image)
      for (int out = 0; out < kOut; ++out) bias_sums[out] += slopes[image * kOut + out];
    held = 0;
  }

  void add_gradient(float* parameters) {
    sum_weight_gradient();
    for (int out = 0; out < Out; ++out) parameters[out] += bias_sums[out];
    for (int in = 0; in < In; ++in)
      for (int out = 0; out < Out; ++out) parameters[Out + in * Out + out] += weight_sums[in * kOut + out];
    std::memset(bias_sums, 0, sizeof(bias_sums));
    std::memset(weight_sums, 0, sizeof(weight_sums));
  }
};

}  // namespace smcda
