// The layers, forward and backward, for one particle and a group of kLanes images.
//
// One image per vector lane: a feature map is [channel][y][x] of vectors, so its shifted rows are contiguous
// and a weight multiplies whole vectors. Only the weight gradient of a dense layer, a sum over images, has
// one unit per lane. Parameters are in Flax's order, the bias of a layer before its kernel. Layers must be
// zero-initialised: padding and gradient sums start at zero.
#pragma once

#include "vectors.h"

namespace smcda {

// Tanh, then the mean of each 2x2 tile. `tile` holds the tanh on entry to `backward`, its gradient on exit.
struct TanhMeanPool {
  static Vec activate(Vec x) { return tanh(x); }
  static Vec pool(Vec a, Vec b, Vec c, Vec d) { return 0.25f * ((a + b) + (c + d)); }
  static void backward(Vec grad, Vec, Vec* tile) {
    for (int i = 0; i < 4; ++i) tile[i] = 0.25f * grad * (1.0f - tile[i] * tile[i]);
  }
};

// The maximum of each 2x2 tile, then tanh: equal to tanh before the maximum, at a quarter of the cost.
// Ties split the gradient equally, pair by pair, as in JAX.
struct MaxPoolTanh {
  static Vec activate(Vec x) { return x; }
  static Vec max(Vec a, Vec b) { return a > b ? a : b; }
  static Vec pool(Vec a, Vec b, Vec c, Vec d) { return tanh(max(max(a, b), max(c, d))); }
  static Vec fraction(Vec a, Vec b) { return a > b ? broadcast(1.0f) : (a == b ? broadcast(0.5f) : Vec{}); }
  static void backward(Vec grad, Vec pooled, Vec* tile) {
    grad *= 1.0f - pooled * pooled;
    const Vec first = fraction(tile[0], tile[1]), third = fraction(tile[2], tile[3]);
    const Vec upper = grad * fraction(max(tile[0], tile[1]), max(tile[2], tile[3]));
    const Vec lower = grad - upper;
    tile[0] = upper * first;
    tile[1] = upper - tile[0];
    tile[2] = lower * third;
    tile[3] = lower - tile[2];
  }
};

// A K x K convolution of Size x Size maps padded by `Pad`, its activation, and 2x2 pooling. The pooled maps
// are padded by `NextPad` for the next convolution. `InputGrad`: whether the gradient of the input is needed.
template <int In, int Out, int K, int Pad, int Size, typename Pooling, int NextPad, bool InputGrad>
struct ConvPool {
  static constexpr int kPadded = Size + 2 * Pad, kOut = kPadded - K + 1, kPooled = kOut / 2;
  static constexpr int kChannels = Out, kNextPad = NextPad, kPooledStride = kPooled + 2 * NextPad;
  static constexpr int kTaps = K * K, kWeights = kTaps * In * Out, kParameters = Out + kWeights;
  // Zeros on both sides of each gradient row, so that `backward_input` has no special case in x.
  static constexpr int kRowPad = InputGrad ? K - 1 - Pad : 0, kRowStride = kOut + 2 * kRowPad;

  alignas(64) Vec conv_out[Out * kOut * kOut];
  alignas(64) Vec pooled[Out * kPooledStride * kPooledStride];
  alignas(64) Vec padded_grad[InputGrad ? Out * kOut * kRowStride : 1];
  alignas(64) Vec weight_grads[kWeights];
  Vec bias_grads[Out];
  float kernel[kWeights], kernel_transposed[kWeights], bias[Out];
  int offsets[kTaps * In], back_offsets[kTaps * Out];

  // Gradient of the convolution's output, in place of that output unless it needs padding.
  Vec* grad() { return InputGrad ? padded_grad : conv_out; }

  static Vec* at(Vec* maps, int stride, int pad, int channel, int y, int x) {
    return maps + (channel * stride + y + pad) * stride + x + pad;
  }

  void load(const float* parameters) {
    std::memcpy(bias, parameters, sizeof(bias));
    std::memcpy(kernel, parameters + Out, sizeof(kernel));
    for (int tap = 0; tap < kTaps; ++tap) {
      const int y = tap / K, x = tap % K;
      for (int in = 0; in < In; ++in) offsets[tap * In + in] = ((in * kPadded + y) * kPadded + x) * kLanes;
      for (int out = 0; out < Out; ++out) {
        back_offsets[tap * Out + out] = (out * kOut * kRowStride - y * kRowStride - x) * kLanes;
        for (int in = 0; in < In; ++in)
          kernel_transposed[(tap * Out + out) * In + in] = kernel[(tap * In + in) * Out + out];
      }
    }
  }

  void forward(const Vec* input) {
    convolve(input);
    for (int out = 0; out < Out; ++out)
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) {
          const Vec* tile = conv_out + (out * kOut + 2 * y) * kOut + 2 * x;
          *at(pooled, kPooledStride, NextPad, out, y, x) =
              Pooling::pool(tile[0], tile[1], tile[kOut], tile[kOut + 1]);
        }
  }

  // `input` includes its padding: [In][kPadded][kPadded].
  void convolve(const Vec* input) {
    for (int y = 0; y < kOut; ++y)
      matmul<Out, kOut>(
          LhsView{kernel, 1, Out}, reinterpret_cast<const float*>(input + y * kPadded), offsets, kTaps * In,
          [&](int out, int) { return broadcast(bias[out]); },
          [&](int out, int x, Vec sum) { conv_out[(out * kOut + y) * kOut + x] = Pooling::activate(sum); });
  }

  // Propagates the gradient of the pooled maps, [Out][kPooled][kPooled], to the convolution's output.
  void backward_pool(const Vec* pooled_grad) {
    for (int out = 0; out < Out; ++out) {
      Vec total = bias_grads[out];
      for (int y = 0; y < kPooled; ++y)
        for (int x = 0; x < kPooled; ++x) {
          const Vec* from = conv_out + (out * kOut + 2 * y) * kOut + 2 * x;
          Vec tile[4] = {from[0], from[1], from[kOut], from[kOut + 1]};
          Pooling::backward(pooled_grad[(out * kPooled + y) * kPooled + x],
                            *at(pooled, kPooledStride, NextPad, out, y, x), tile);
          Vec* to = grad() + (out * kOut + 2 * y) * kRowStride + kRowPad + 2 * x;
          to[0] = tile[0], to[1] = tile[1], to[kRowStride] = tile[2], to[kRowStride + 1] = tile[3];
          total += (tile[0] + tile[1]) + (tile[2] + tile[3]);
        }
      bias_grads[out] = total;
    }
  }

  // Cache blocking of the weight gradient: output channels whose sums fit the registers, and rows of their
  // gradients that fit the L1 cache.
  static constexpr int kOutBlock = best_tile(K, Out).rows == K ? best_tile(K, Out).vectors : 1;
  static constexpr int row_block() {
    int rows = 1;
    for (int r = 1; r <= kOut; ++r)
      if (kOut % r == 0 && r * kRowStride * kOutBlock * sizeof(Vec) <= 32 * 1024) rows = r;
    return rows;
  }

  // Adds this group's contribution to `weight_grads`, one sum per lane; `add_grad` reduces over lanes.
  void accumulate_weight_grad(const Vec* input) {
    constexpr int kRowBlock = row_block();
    for (int from = 0; from < kOut; from += kRowBlock)
      for (int out = 0; out < Out; out += kOutBlock)
        for (int in = 0; in < In; ++in)
          for (int tap_y = 0; tap_y < K; ++tap_y) {
            Vec* sums = weight_grads + (tap_y * K * In + in) * Out + out;
            Vec sum[K][kOutBlock];
            for (int tap = 0; tap < K; ++tap)
              for (int o = 0; o < kOutBlock; ++o) sum[tap][o] = sums[tap * In * Out + o];
            for (int y = from; y < from + kRowBlock; ++y) {
              const Vec* row = input + (in * kPadded + y + tap_y) * kPadded;
              const Vec* output_grad = grad() + (out * kOut + y) * kRowStride + kRowPad;
              for (int x = 0; x < kOut; ++x) {
                Vec factor[kOutBlock];
                for (int o = 0; o < kOutBlock; ++o) factor[o] = output_grad[o * kOut * kRowStride + x];
                for (int tap = 0; tap < K; ++tap) {
                  const Vec pixel = row[x + tap];
                  for (int o = 0; o < kOutBlock; ++o) sum[tap][o] += pixel * factor[o];
                }
              }
            }
            for (int tap = 0; tap < K; ++tap)
              for (int o = 0; o < kOutBlock; ++o) sums[tap * In * Out + o] = sum[tap][o];
          }
  }

  // Gradient of the input without its padding, [In][Size][Size].
  void backward_input(Vec* input_grad) const {
    for (int y = 0; y < Size; ++y) {
      // Kernel rows that overlap the output: 0 <= y + Pad - tap_y < kOut.
      const int first = y + Pad - kOut + 1 > 0 ? y + Pad - kOut + 1 : 0;
      const int last = y + Pad < K - 1 ? y + Pad : K - 1;
      const int skipped = first * K * Out, n_k = (last - first + 1) * K * Out;
      matmul<In, Size>(
          LhsView{kernel_transposed + skipped * In, 1, In},
          reinterpret_cast<const float*>(padded_grad + (y + Pad) * kRowStride + kRowPad + Pad),
          back_offsets + skipped, n_k, [](int, int) { return Vec{}; },
          [&](int in, int x, Vec sum) { input_grad[(in * Size + y) * Size + x] = sum; });
    }
  }

  // Adds the sums to a flat gradient and resets them.
  void add_grad(float* flat) {
    for (int i = 0; i < Out; ++i) flat[i] += sum_lanes(bias_grads[i]);
    for (int i = 0; i < kWeights; ++i) flat[Out + i] += sum_lanes(weight_grads[i]);
    std::memset(static_cast<void*>(bias_grads), 0, sizeof(bias_grads));
    std::memset(static_cast<void*>(weight_grads), 0, sizeof(weight_grads));
  }
};

// A dense layer. Its weight gradient exceeds the fast caches, so the inputs and output gradients of
// kMaxBuffered groups are buffered and accumulated in one pass over it.
template <int In, int Out>
struct Dense {
  static constexpr int kMaxBuffered = 4, kOut = round_up(Out), kParameters = Out + In * Out;

  alignas(64) Vec inputs[In * kMaxBuffered];              // [unit][group]
  alignas(64) float grads[kMaxBuffered * kLanes * kOut];  // [image][unit], units padded with zeros
  alignas(64) float weight_grads[In * kOut], bias_grads[kOut];
  float bias[Out], weights[In * Out];
  int offsets[In], back_offsets[Out], image_offsets[kMaxBuffered * kLanes];
  int n_buffered;

  void load(const float* parameters) {
    std::memcpy(bias, parameters, sizeof(bias));
    std::memcpy(weights, parameters + Out, sizeof(weights));
    for (int in = 0; in < In; ++in) offsets[in] = in * kMaxBuffered * kLanes;
    for (int out = 0; out < Out; ++out) back_offsets[out] = out * kLanes;
    for (int image = 0; image < kMaxBuffered * kLanes; ++image) image_offsets[image] = image * kOut;
  }

  // Buffer for the next group's input: unit i at `input()[i * kMaxBuffered]`.
  Vec* input() { return inputs + n_buffered; }

  template <typename Store>
  void forward(Store store) const {
    matmul<Out, 1>(
        LhsView{weights, 1, Out}, reinterpret_cast<const float*>(inputs + n_buffered), offsets, In,
        [&](int out, int) { return broadcast(bias[out]); }, [&](int out, int, Vec sum) { store(out, sum); });
  }

  // `store(unit, grad)` receives the gradient of each input. Buffers `output_grads` for the weight gradient.
  template <typename Store>
  void backward(const Vec* output_grads, Store store) {
    matmul<In, 1>(
        LhsView{weights, Out, 1}, reinterpret_cast<const float*>(output_grads), back_offsets, Out,
        [](int, int) { return Vec{}; }, [&](int in, int, Vec sum) { store(in, sum); });
    for (int lane = 0; lane < kLanes; ++lane)
      for (int out = 0; out < Out; ++out)
        grads[(n_buffered * kLanes + lane) * kOut + out] = output_grads[out][lane];
    if (++n_buffered == kMaxBuffered) accumulate_weight_grad();
  }

  void accumulate_weight_grad() {
    Vec* sums = reinterpret_cast<Vec*>(weight_grads);
    matmul<In, kOut / kLanes>(
        LhsView{reinterpret_cast<const float*>(inputs), kMaxBuffered * kLanes, 1}, grads, image_offsets,
        n_buffered * kLanes,
        [&](int in, int v) { return sums[in * (kOut / kLanes) + v]; },
        [&](int in, int v, Vec sum) { sums[in * (kOut / kLanes) + v] = sum; });
    for (int image = 0; image < n_buffered * kLanes; ++image)
      for (int out = 0; out < kOut; ++out) bias_grads[out] += grads[image * kOut + out];
    n_buffered = 0;
  }

  // Adds the sums to a flat gradient and resets them.
  void add_grad(float* flat) {
    accumulate_weight_grad();
    for (int out = 0; out < Out; ++out) flat[out] += bias_grads[out];
    for (int in = 0; in < In; ++in)
      for (int out = 0; out < Out; ++out) flat[Out + in * Out + out] += weight_grads[in * kOut + out];
    std::memset(bias_grads, 0, sizeof(bias_grads));
    std::memset(weight_grads, 0, sizeof(weight_grads));
  }
};

}  // namespace smcda
