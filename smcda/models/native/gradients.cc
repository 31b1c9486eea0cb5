// XLA FFI handlers: log-likelihood and gradient of every particle, summed over a window of images; logits.
//
// A task is one particle and one chunk of images. The chunks depend only on the number of particles and the
// window, and are added in a fixed order, so results are bit-identical on any number of threads.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "networks.h"
#include "normalised.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace smcda {
namespace {

// Images per partial sum; partial sums bound the rounding error.
constexpr int kImagesPerSum = 512;
// With few particles, their chunks make up at most this many tasks: enough to occupy as many threads.
constexpr int kMaxTasks = 32;
// Loading the parameters would dominate in shorter chunks.
constexpr int kMinGroupsPerChunk = 8;

// One particle on the images [begin, end), and its result.
struct Task {
  const float* particle;
  int begin, end;
  float* gradient = nullptr;
  double value = 0;
};

// The sum over the chunks of one particle in one part of the window; `first` is that of its tasks.
struct PartSum {
  float* value;
  float* gradient;
  int n_chunks;
  size_t first = 0;
};

// Reused between calls: constructing a network costs as much as dozens of images.
template <typename Network>
Network& thread_local_network() {
  thread_local const std::unique_ptr<Network> network = std::make_unique<Network>();
  return *network;
}

// Scratch memory of at least `size` numbers, kept by this thread: new pages at every call would cost more than
// what they are used for.
float* thread_local_scratch(size_t size) {
  thread_local std::vector<float> memory;
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

// Chunks are multiples of `unit` images, and of at least `min_units` units.
struct Chunking {
  int unit, min_units;
};

constexpr Chunking kWholeGroups{kLanes, kMinGroupsPerChunk};

template <typename Network>
double sum_chunk(Network& network, const Task& task, const uint8_t* images, const uint8_t* labels) {
  double value = 0;
  for (int from = task.begin; from < task.end; from += kImagesPerSum) {
    const int to = std::min(from + kImagesPerSum, task.end);
    for (int i = from; i < to; i += kLanes)
      value += network.forward_backward(images + static_cast<size_t>(i) * kSide * kSide, labels + i,
                            std::min(kLanes, to - i));
    network.add_grad(task.gradient);
  }
  return value;
}

// Normalises each minibatch of `size` images separately. The last one may extend past the end of the task:
// those images enter the statistics, not the sums.
template <typename Network>
double sum_minibatches(Network& network, const Task& task, const uint8_t* images, const uint8_t* labels,
                       int size) {
  double value = 0;
  for (int from = task.begin; from < task.end; from += size) {
    value += network.forward_backward(images + static_cast<size_t>(from) * kSide * kSide, labels + from, size,
                          std::min(size, task.end - from));
    network.add_grad(task.gradient);
  }
  return value;
}

struct LoopState {
  std::atomic<size_t> next{0};
  size_t n_finished = 0;
  std::mutex mutex;
  std::condition_variable all_finished;
};

// Calls `work(i)` for i in [0, n) on the calling thread and the free threads of the pool. Waits for the
// calls, not for every scheduled thread to run, so that concurrent loops on one pool cannot deadlock.
template <typename Work>
void parallel_for(ffi::ThreadPool& pool, size_t n, Work work) {
  const auto state = std::make_shared<LoopState>();
  const auto run = [state, n, work] {
    size_t n_done = 0;
    for (size_t i = state->next++; i < n; i = state->next++, ++n_done) work(i);
    if (n_done == 0) return;
    std::lock_guard<std::mutex> lock(state->mutex);
    state->n_finished += n_done;
    if (state->n_finished == n) state->all_finished.notify_all();
  };
  const size_t n_threads = std::min(n, static_cast<size_t>(pool.num_threads()));
  for (size_t i = 1; i < n_threads; ++i) pool.Schedule(std::function<void()>(run));
  run();
  std::unique_lock<std::mutex> lock(state->mutex);
  state->all_finished.wait(lock, [&] { return state->n_finished == n; });
}

ffi::Error wrong_size() {
  return ffi::Error::InvalidArgument("a particle has another number of parameters than the network");
}

ffi::Error wrong_window() { return ffi::Error::InvalidArgument("the window leaves the data"); }

// `sum_task(network, task, images, labels)` returns the value of a task and adds to its gradient.
template <typename Network, typename SumTask>
ffi::Error sum_window(ffi::ThreadPool& pool, ffi::Buffer<ffi::F32> particles, ffi::Buffer<ffi::U8> images,
                      ffi::Buffer<ffi::U8> labels, ffi::Buffer<ffi::S32> bounds,
                      ffi::ResultBuffer<ffi::F32> value, ffi::ResultBuffer<ffi::F32> gradient,
                      Chunking chunking, SumTask sum_task) {
  constexpr int kParameters = Network::kParameters;
  const int n_particles = static_cast<int>(particles.dimensions()[0]);
  const int* bound = bounds.typed_data();
  if (particles.dimensions()[1] != kParameters) return wrong_size();

  std::vector<Task> tasks;
  std::vector<PartSum> sums;
  for (int part = 0; part < 2; ++part) {
    const int begin = bound[part], end = std::max(begin, bound[part + 1]);
    const int units = (end - begin + chunking.unit - 1) / chunking.unit;
    const int n_chunks = std::max(1, std::min(kMaxTasks / n_particles, units / chunking.min_units));
    for (int particle = 0; particle < n_particles; ++particle) {
      const size_t row = static_cast<size_t>(part) * n_particles + particle;
      sums.push_back({value->typed_data() + row, gradient->typed_data() + row * kParameters, n_chunks});
      for (int chunk = 0; chunk < n_chunks; ++chunk)
        tasks.push_back({particles.typed_data() + static_cast<size_t>(particle) * kParameters,
                         std::min(end, begin + units * chunk / n_chunks * chunking.unit),
                         std::min(end, begin + units * (chunk + 1) / n_chunks * chunking.unit)});
    }
  }
  // The first chunk accumulates in the result itself, the others in scratch memory.
  float* next_scratch = thread_local_scratch((tasks.size() - sums.size()) * kParameters);
  size_t first = 0;
  for (PartSum& sum : sums) {
    sum.first = first;
    tasks[first].gradient = sum.gradient;
    for (int i = 1; i < sum.n_chunks; ++i, next_scratch += kParameters)
      tasks[first + i].gradient = next_scratch;
    first += sum.n_chunks;
  }

  const uint8_t* pixels = images.typed_data();
  const uint8_t* classes = labels.typed_data();
  parallel_for(pool, tasks.size(), [=, &tasks](size_t i) {
    Task& task = tasks[i];
    std::fill_n(task.gradient, kParameters, 0.0f);
    if (task.begin == task.end) return;
    Network& network = thread_local_network<Network>();
    network.load(task.particle);
    task.value = sum_task(network, task, pixels, classes);
  });

  parallel_for(pool, sums.size(), [=, &tasks, &sums](size_t s) {
    const PartSum& sum = sums[s];
    double total = 0;
    for (int chunk = 0; chunk < sum.n_chunks; ++chunk) {
      const Task& task = tasks[sum.first + chunk];
      total += task.value;
      for (int i = 0; chunk > 0 && i < kParameters; ++i) sum.gradient[i] += task.gradient[i];
    }
    *sum.value = static_cast<float>(total);
  });
  return ffi::Error::Success();
}

template <typename Network>
ffi::Error likelihood_sums(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles,
                           ffi::Buffer<ffi::U8> images, ffi::Buffer<ffi::U8> labels,
                           ffi::Buffer<ffi::S32> bounds, ffi::ResultBuffer<ffi::F32> value,
                           ffi::ResultBuffer<ffi::F32> gradient) {
  const int* bound = bounds.typed_data();
  if (bound[0] < 0 || bound[2] > images.dimensions()[0]) return wrong_window();
  return sum_window<Network>(pool, particles, images, labels, bounds, value, gradient, kWholeGroups,
                             sum_chunk<Network>);
}

// The same with batch normalisation, over consecutive minibatches from the start of each part.
template <typename Network>
ffi::Error normalised_sums(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles,
                           ffi::Buffer<ffi::U8> images, ffi::Buffer<ffi::U8> labels,
                           ffi::Buffer<ffi::S32> bounds, ffi::ResultBuffer<ffi::F32> value,
                           ffi::ResultBuffer<ffi::F32> gradient, int64_t minibatch_size) {
  const int size = static_cast<int>(minibatch_size);
  const int* bound = bounds.typed_data();
  for (int part = 0; part < 2; ++part) {
    const int64_t minibatches = (std::max(0, bound[part + 1] - bound[part]) + size - 1) / size;
    if (bound[part] < 0 || bound[part] + minibatches * size > images.dimensions()[0]) return wrong_window();
  }
  return sum_window<Network>(pool, particles, images, labels, bounds, value, gradient, Chunking{size, 1},
                             [size](Network& network, const Task& task, const uint8_t* x, const uint8_t* y) {
                               return sum_minibatches(network, task, x, y, size);
                             });
}

// Logits of every particle on every image. `setup(network)` is called once per particle, after loading it.
template <typename Network, typename Setup>
ffi::Error write_logits(ffi::ThreadPool& pool, ffi::Buffer<ffi::F32> particles, ffi::Buffer<ffi::U8> images,
                        ffi::ResultBuffer<ffi::F32> output, Setup setup) {
  constexpr int kParameters = Network::kParameters;
  const size_t n_images = images.dimensions()[0];
  if (particles.dimensions()[1] != kParameters) return wrong_size();
  const float* weights = particles.typed_data();
  const uint8_t* pixels = images.typed_data();
  float* to = output->typed_data();
  parallel_for(pool, particles.dimensions()[0], [=](size_t particle) {
    Network& network = thread_local_network<Network>();
    network.load(weights + particle * kParameters);
    setup(network);
    for (size_t i = 0; i < n_images; i += kLanes)
      network.logits(pixels + i * kSide * kSide, static_cast<int>(std::min<size_t>(kLanes, n_images - i)),
                     to + (particle * n_images + i) * kClasses);
  });
  return ffi::Error::Success();
}

template <typename Network>
ffi::Error logits(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles, ffi::Buffer<ffi::U8> images,
                  ffi::ResultBuffer<ffi::F32> output) {
  return write_logits<Network>(pool, particles, images, output, [](Network&) {});
}

// The same with batch normalisation, using the statistics of the `reference` images.
template <typename Network>
ffi::Error normalised_logits(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles,
                             ffi::Buffer<ffi::U8> images, ffi::Buffer<ffi::U8> reference,
                             ffi::ResultBuffer<ffi::F32> output) {
  const uint8_t* pixels = reference.typed_data();
  const int n_images = static_cast<int>(reference.dimensions()[0]);
  return write_logits<Network>(pool, particles, images, output,
                               [=](Network& network) { network.compute_statistics(pixels, n_images); });
}

auto sums_arguments() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::Buffer<ffi::F32>>()
      .Arg<ffi::Buffer<ffi::U8>>()
      .Arg<ffi::Buffer<ffi::U8>>()
      .Arg<ffi::Buffer<ffi::S32>>()
      .Ret<ffi::Buffer<ffi::F32>>()
      .Ret<ffi::Buffer<ffi::F32>>();
}

auto logits_arguments() {
  return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::U8>>();
}

}  // namespace
}  // namespace smcda

#define SMCDA_HANDLERS(name, Network)                                                                   \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_sums, smcda::likelihood_sums<smcda::Network>,                    \
                                smcda::sums_arguments());                                               \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_logits, smcda::logits<smcda::Network>,                           \
                                smcda::logits_arguments().Ret<ffi::Buffer<ffi::F32>>())

#define SMCDA_NORMALISED_HANDLERS(name, Network)                                                        \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_normalised_sums, smcda::normalised_sums<smcda::Network>,         \
                                smcda::sums_arguments().Attr<int64_t>("images_each"));                  \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                        \
      name##_normalised_logits, smcda::normalised_logits<smcda::Network>,                               \
      smcda::logits_arguments().Arg<ffi::Buffer<ffi::U8>>().Ret<ffi::Buffer<ffi::F32>>())

SMCDA_HANDLERS(lenet5, LeNet5);
SMCDA_HANDLERS(fashion_cnn, FashionCnn);
SMCDA_NORMALISED_HANDLERS(fashion_cnn, NormalisedFashionCnn);
