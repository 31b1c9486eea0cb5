// SIMD vectors, tanh on them, and the matrix product that all layers share.
//
// A vector holds one quantity for several images, or several units of a dense layer for one image. Arithmetic
// on it uses the vector extension of GCC and Clang, at the widest width the CPU has.
#pragma once

#include <cstddef>
#include <cstring>

namespace smcda {

#if defined(__AVX512F__)
constexpr int kLanes = 16, kRegisters = 32;
#elif defined(__AVX__)
constexpr int kLanes = 8, kRegisters = 16;
#elif defined(__aarch64__)
constexpr int kLanes = 4, kRegisters = 32;
#else
constexpr int kLanes = 4, kRegisters = 16;
#endif

typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));
typedef int Mask __attribute__((vector_size(kLanes * sizeof(int))));

inline Vec broadcast(float value) { return value - Vec{}; }

inline float sum_lanes(Vec v) {
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += v[lane];
  return total;
}

constexpr int round_up(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Coefficients of tanh x = x / (1 + x^2 / (3 + x^2 / (5 + ...))), truncated after kDepth levels: x times a
// rational function of x^2. Error at most 6 ulp.
struct TanhRational {
  static constexpr int kDepth = 13, kTerms = (kDepth + 1) / 2;
  float numerator[kTerms], denominator[kTerms];

  constexpr TanhRational() : numerator{}, denominator{} {
    double outer[kTerms + 1] = {2.0 * kDepth - 1}, inner[kTerms + 1] = {1};
    for (int level = kDepth - 1; level > 0; --level) {
      double next[kTerms + 1] = {};
      for (int i = 0; i < kTerms; ++i) {
        next[i] += (2.0 * level - 1) * outer[i];
        next[i + 1] += inner[i];
      }
      for (int i = 0; i <= kTerms; ++i) inner[i] = outer[i], outer[i] = next[i];
    }
    for (int i = 0; i < kTerms; ++i) {
      numerator[i] = static_cast<float>(inner[i] / inner[0]);
      denominator[i] = static_cast<float>(outer[i] / inner[0]);
    }
  }
};

inline Vec tanh(Vec x) {
  constexpr TanhRational rational;
  const Vec limit = broadcast(9.0f);  // beyond it tanh rounds to 1 in float32
  x = x > limit ? limit : x;          // NaN fails the comparison and propagates
  x = x < -limit ? -limit : x;
  const Vec square = x * x;
  Vec numerator = broadcast(rational.numerator[TanhRational::kTerms - 1]);
  Vec denominator = broadcast(rational.denominator[TanhRational::kTerms - 1]);
  for (int i = TanhRational::kTerms - 2; i >= 0; --i) {
    numerator = numerator * square + rational.numerator[i];
    denominator = denominator * square + rational.denominator[i];
  }
  return x * numerator / denominator;
}

// A register tile of the matrix product: rows x vectors accumulators, plus `vectors` right-hand operands and
// one broadcast left-hand value.
struct Tile {
  int rows, vectors;
};

constexpr Tile best_tile(int rows, int vectors) {
  Tile best{1, 1};
  for (int r = 1; r <= rows; ++r)
    for (int v = 1; v <= vectors; ++v) {
      const bool fits = rows % r == 0 && vectors % v == 0 && r * v + v + 1 <= kRegisters;
      // Maximise arithmetic per load, r * v / (r + v).
      if (fits && r * v * (best.rows + best.vectors) > best.rows * best.vectors * (r + v)) best = {r, v};
    }
  return best;
}

// Strided view of the left-hand matrix: element (row, k) is `data[row * row_stride + k * k_stride]`.
struct LhsView {
  const float* data;
  ptrdiff_t row_stride, k_stride;
};

// out(row, column) = init(row, column) + sum over k of lhs(row, k) * rhs(k, column), one tile at a time.
// Row k of the right-hand matrix starts at `rhs + offsets[k]`, so a convolution needs no im2col copy.
// `init(row, vector)` returns the initial value; `store(row, vector, sum)` receives the result.
template <int Rows, int Vectors, typename Init, typename Store>
inline void matmul(LhsView lhs, const float* rhs, const int* offsets, int n_k, Init init, Store store) {
  constexpr Tile tile = best_tile(Rows, Vectors);
  for (int row = 0; row < Rows; row += tile.rows)
    for (int vector = 0; vector < Vectors; vector += tile.vectors) {
      // Unrolled fully: otherwise the compiler keeps the accumulators in memory.
      Vec sum[tile.rows][tile.vectors];
#pragma GCC unroll 32
      for (int r = 0; r < tile.rows; ++r)
#pragma GCC unroll 32
        for (int v = 0; v < tile.vectors; ++v) sum[r][v] = init(row + r, vector + v);
      const float* at = lhs.data + row * lhs.row_stride;
      for (int k = 0; k < n_k; ++k) {
        const Vec* from = reinterpret_cast<const Vec*>(rhs + offsets[k]) + vector;
        Vec rhs_tile[tile.vectors];
#pragma GCC unroll 32
        for (int v = 0; v < tile.vectors; ++v) rhs_tile[v] = from[v];
#pragma GCC unroll 32
        for (int r = 0; r < tile.rows; ++r) {
          const Vec lhs_value = broadcast(at[r * lhs.row_stride + k * lhs.k_stride]);
#pragma GCC unroll 32
          for (int v = 0; v < tile.vectors; ++v) sum[r][v] += lhs_value * rhs_tile[v];
        }
      }
#pragma GCC unroll 32
      for (int r = 0; r < tile.rows; ++r)
#pragma GCC unroll 32
        for (int v = 0; v < tile.vectors; ++v) store(row + r, vector + v, sum[r][v]);
    }
}

}  // namespace smcda
