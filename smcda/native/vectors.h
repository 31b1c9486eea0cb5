// Vectors of numbers, the hyperbolic tangent on them, and the one matrix product that all layers share.
//
// A vector holds the same quantity of several images (convolutions) or several units of one layer (dense
// layers). GCC's and Clang's vector extension turns arithmetic on it into the widest instructions there are.
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

inline Vec spread(float value) { return value - Vec{}; }

inline float sum_of_lanes(Vec v) {
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += v[lane];
  return total;
}

constexpr int round_up(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// tanh x = x / (1 + x^2 / (3 + x^2 / (5 + ...))), cut after kDepth levels: a quotient of two polynomials
// in x^2, built here from the continued fraction. Error at most 6 units in the last place.
struct TanhQuotient {
  static constexpr int kDepth = 13, kTerms = (kDepth + 1) / 2;
  float above[kTerms], below[kTerms];

  constexpr TanhQuotient() : above{}, below{} {
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
      above[i] = static_cast<float>(inner[i] / inner[0]);
      below[i] = static_cast<float>(outer[i] / inner[0]);
    }
  }
};

inline Vec tanh(Vec x) {
  constexpr TanhQuotient quotient;
  const Vec most = spread(9.0f);  // from here on tanh is 1 in single precision
  x = x > most ? most : x;        // a NaN passes: it must not look like a finite result
  x = x < -most ? -most : x;
  const Vec square = x * x;
  Vec above = spread(quotient.above[TanhQuotient::kTerms - 1]);
  Vec below = spread(quotient.below[TanhQuotient::kTerms - 1]);
  for (int i = TanhQuotient::kTerms - 2; i >= 0; --i) {
    above = above * square + quotient.above[i];
    below = below * square + quotient.below[i];
  }
  return x * above / below;
}

// How a matrix product is cut so that its sums stay in registers: `rows` sums by `vectors`, plus the
// vectors and one spread number they are made of.
struct Tile {
  int rows, vectors;
};

constexpr Tile best_tile(int rows, int vectors) {
  Tile best{1, 1};
  for (int r = 1; r <= rows; ++r)
    for (int v = 1; v <= vectors; ++v) {
      const bool fits = rows % r == 0 && vectors % v == 0 && r * v + v + 1 <= kRegisters;
      // Arithmetic for each number loaded.
      if (fits && r * v * (best.rows + best.vectors) > best.rows * best.vectors * (r + v)) best = {r, v};
    }
  return best;
}

// The left operand: the number at (row, k) is `at[row * row_step + k * k_step]`.
struct Left {
  const float* at;
  ptrdiff_t row_step, k_step;
};

// out(row, column) = start(row, column) + sum over k of left(row, k) * right[k](column), one tile a time.
// `right + offsets[k]` is where the k-th right-hand row begins, so that a convolution needs no patches.
// `start(row, vector)` gives the first term and `finish(row, vector, sum)` takes the result.
template <int Rows, int Vectors, typename Start, typename Finish>
inline void product(Left left, const float* right, const int* offsets, int n_k, Start start, Finish finish) {
  constexpr Tile tile = best_tile(Rows, Vectors);
  for (int row = 0; row < Rows; row += tile.rows)
    for (int vector = 0; vector < Vectors; vector += tile.vectors) {
      // Unrolled in full, or else the compiler keeps the sums in memory.
      Vec sum[tile.rows][tile.vectors];
#pragma GCC unroll 32
      for (int r = 0; r < tile.rows; ++r)
#pragma GCC unroll 32
        for (int v = 0; v < tile.vectors; ++v) sum[r][v] = start(row + r, vector + v);
      const float* at = left.at + row * left.row_step;
      for (int k = 0; k < n_k; ++k) {
        const Vec* from = reinterpret_cast<const Vec*>(right + offsets[k]) + vector;
        Vec operand[tile.vectors];
#pragma GCC unroll 32
        for (int v = 0; v < tile.vectors; ++v) operand[v] = from[v];
#pragma GCC unroll 32
        for (int r = 0; r < tile.rows; ++r) {
          const Vec factor = spread(at[r * left.row_step + k * left.k_step]);
#pragma GCC unroll 32
          for (int v = 0; v < tile.vectors; ++v) sum[r][v] += factor * operand[v];
        }
      }
#pragma GCC unroll 32
      for (int r = 0; r < tile.rows; ++r)
#pragma GCC unroll 32
        for (int v = 0; v < tile.vectors; ++v) finish(row + r, vector + v, sum[r][v]);
    }
}

}  // namespace smcda
