// Log-likelihood and gradient sums of every particle over a window of images, as calls that XLA can make.
//
// The work is cut into tasks of one particle and one stretch of images. How it is cut depends on the number of
// particles and the window alone, never on the threads, and stretches are added in a fixed order: the same
// sums, bit for bit, on any number of threads.

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

// Sums are taken over so many images before they are added to the total, which keeps rounding small.
constexpr int kImagesASum = 512;
// Enough tasks to keep this many threads busy even with a single particle.
constexpr int kTasks = 32;
// Shorter stretches than this many groups of images would not pay for taking in the weights.
constexpr int kLeastGroups = 8;

// One particle on one stretch of images, and where its gradient goes.
struct Task {
  const float* particle;
  int begin, end;
  float* gradient = nullptr;
  double value = 0;
};

// The stretches of one particle on one part of the window, to be added up.
struct Sum {
  float* value;
  float* gradient;
  int stretches;
};

// A thread's own network, which it keeps: making one anew costs as much as dozens of images.
template <typename Network>
Network& own() {
  thread_local const std::unique_ptr<Network> network = std::make_unique<Network>();
  return *network;
}

// How a window may be cut: between units of so many images, into stretches of at least so many units.
struct Cut {
  int unit, least;
};

constexpr Cut kBetweenGroups{kLanes, kLeastGroups};

template <typename Network>
double sum_stretch(Network& network, const Task& task, const uint8_t* images, const uint8_t* labels) {
  double value = 0;
  for (int from = task.begin; from < task.end; from += kImagesASum) {
    const int to = std::min(from + kImagesASum, task.end);
    for (int i = from; i < to; i += kLanes)
      value += network.pass(images + static_cast<size_t>(i) * kSide * kSide, labels + i,
                            std::min(kLanes, to - i));
    network.add_gradient(task.gradient);
  }
  return value;
}

// Minibatches of `size` images are normalised each by itself. The last one goes on past the end of the
// stretch: what is there has a part in the statistics, none in the sums.
template <typename Network>
double sum_minibatches(Network& network, const Task& task, const uint8_t* images, const uint8_t* labels,
                       int size) {
  double value = 0;
  for (int from = task.begin; from < task.end; from += size) {
    value += network.pass(images + static_cast<size_t>(from) * kSide * kSide, labels + from, size,
                          std::min(size, task.end - from));
    network.add_gradient(task.gradient);
  }
  return value;
}

// Calls `work(i)` for i in [0, n) on the calling thread and whichever threads of the pool are free. Waits for
// calls, not for threads: a thread that comes late finds nothing to do, so that two windows evaluated at the
// same time on one pool can't wait for each other.
struct Share {
  std::atomic<size_t> next{0};
  size_t finished = 0;
  std::mutex mutex;
  std::condition_variable all_finished;
};

template <typename Work>
void share_out(ffi::ThreadPool& pool, size_t n, Work work) {
  const auto share = std::make_shared<Share>();
  const auto take_part = [share, n, work] {
    size_t done = 0;
    for (size_t i = share->next++; i < n; i = share->next++, ++done) work(i);
    if (done == 0) return;
    std::lock_guard<std::mutex> lock(share->mutex);
    share->finished += done;
    if (share->finished == n) share->all_finished.notify_all();
  };
  const size_t helpers = std::min(n, static_cast<size_t>(pool.num_threads()));
  for (size_t i = 1; i < helpers; ++i) pool.Schedule(std::function<void()>(take_part));
  take_part();
  std::unique_lock<std::mutex> lock(share->mutex);
  share->all_finished.wait(lock, [&] { return share->finished == n; });
}

ffi::Error wrong_size() {
  return ffi::Error::InvalidArgument("a particle has another number of parameters than the network");
}

ffi::Error wrong_window() { return ffi::Error::InvalidArgument("the window leaves the data"); }

// `sum_of(network, task, images, labels)` gives the value of a task and adds to its gradient.
template <typename Network, typename Summing>
ffi::Error sum_window(ffi::ThreadPool& pool, ffi::Buffer<ffi::F32> particles, ffi::Buffer<ffi::U8> images,
                      ffi::Buffer<ffi::U8> labels, ffi::Buffer<ffi::S32> bounds,
                      ffi::ResultBuffer<ffi::F32> value, ffi::ResultBuffer<ffi::F32> gradient, Cut cut,
                      Summing sum_of) {
  constexpr int kParameters = Network::kParameters;
  const int n_particles = static_cast<int>(particles.dimensions()[0]);
  const int* bound = bounds.typed_data();
  if (particles.dimensions()[1] != kParameters) return wrong_size();

  std::vector<Task> tasks;
  std::vector<Sum> sums;
  for (int part = 0; part < 2; ++part) {
    const int begin = bound[part], end = std::max(begin, bound[part + 1]);
    const int units = (end - begin + cut.unit - 1) / cut.unit;
    const int stretches = std::max(1, std::min(kTasks / n_particles, units / cut.least));
    for (int particle = 0; particle < n_particles; ++particle) {
      const size_t row = static_cast<size_t>(part) * n_particles + particle;
      sums.push_back({value->typed_data() + row, gradient->typed_data() + row * kParameters, stretches});
      for (int stretch = 0; stretch < stretches; ++stretch)
        tasks.push_back({particles.typed_data() + static_cast<size_t>(particle) * kParameters,
                         std::min(end, begin + units * stretch / stretches * cut.unit),
                         std::min(end, begin + units * (stretch + 1) / stretches * cut.unit)});
    }
  }
  // The first stretch is summed where the result belongs, the others beside it.
  const std::unique_ptr<float[]> beside(new float[(tasks.size() - sums.size()) * kParameters]);
  float* free = beside.get();
  size_t first = 0;
  for (const Sum& sum : sums) {
    tasks[first].gradient = sum.gradient;
    for (int i = 1; i < sum.stretches; ++i, free += kParameters) tasks[first + i].gradient = free;
    first += sum.stretches;
  }

  const uint8_t* pixels = images.typed_data();
  const uint8_t* classes = labels.typed_data();
  share_out(pool, tasks.size(), [=, &tasks](size_t i) {
    Task& task = tasks[i];
    std::fill_n(task.gradient, kParameters, 0.0f);
    if (task.begin == task.end) return;
    Network& network = own<Network>();
    network.load(task.particle);
    task.value = sum_of(network, task, pixels, classes);
  });

  const Task* task = tasks.data();
  for (const Sum& sum : sums) {
    double total = task++->value;
    for (int stretch = 1; stretch < sum.stretches; ++stretch, ++task) {
      total += task->value;
      for (int i = 0; i < kParameters; ++i) sum.gradient[i] += task->gradient[i];
    }
    *sum.value = static_cast<float>(total);
  }
  return ffi::Error::Success();
}

template <typename Network>
ffi::Error likelihood_sums(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles,
                           ffi::Buffer<ffi::U8> images, ffi::Buffer<ffi::U8> labels,
                           ffi::Buffer<ffi::S32> bounds, ffi::ResultBuffer<ffi::F32> value,
                           ffi::ResultBuffer<ffi::F32> gradient) {
  const int* bound = bounds.typed_data();
  if (bound[0] < 0 || bound[2] > images.dimensions()[0]) return wrong_window();
  return sum_window<Network>(pool, particles, images, labels, bounds, value, gradient, kBetweenGroups,
                             sum_stretch<Network>);
}

// The same with batch normalisation, over minibatches of `size` images counted from the start of each part.
template <typename Network>
ffi::Error normalised_sums(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles,
                           ffi::Buffer<ffi::U8> images, ffi::Buffer<ffi::U8> labels,
                           ffi::Buffer<ffi::S32> bounds, ffi::ResultBuffer<ffi::F32> value,
                           ffi::ResultBuffer<ffi::F32> gradient, int64_t images_each) {
  const int size = static_cast<int>(images_each);
  const int* bound = bounds.typed_data();
  for (int part = 0; part < 2; ++part) {
    const int64_t minibatches = (std::max(0, bound[part + 1] - bound[part]) + size - 1) / size;
    if (bound[part] < 0 || bound[part] + minibatches * size > images.dimensions()[0]) return wrong_window();
  }
  return sum_window<Network>(pool, particles, images, labels, bounds, value, gradient, Cut{size, 1},
                             [size](Network& network, const Task& task, const uint8_t* x, const uint8_t* y) {
                               return sum_minibatches(network, task, x, y, size);
                             });
}

// Logits of every particle on every image; `prepare(network)` follows the loading of a particle.
template <typename Network, typename Prepare>
ffi::Error write_logits(ffi::ThreadPool& pool, ffi::Buffer<ffi::F32> particles, ffi::Buffer<ffi::U8> images,
                        ffi::ResultBuffer<ffi::F32> output, Prepare prepare) {
  constexpr int kParameters = Network::kParameters;
  const size_t n_images = images.dimensions()[0];
  if (particles.dimensions()[1] != kParameters) return wrong_size();
  const float* weights = particles.typed_data();
  const uint8_t* pixels = images.typed_data();
  float* to = output->typed_data();
  share_out(pool, particles.dimensions()[0], [=](size_t particle) {
    Network& network = own<Network>();
    network.load(weights + particle * kParameters);
    prepare(network);
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

// The same with batch normalisation, by the statistics of `reference` images.
template <typename Network>
ffi::Error normalised_logits(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles, ffi::Buffer<ffi::U8> images,
                             ffi::Buffer<ffi::U8> reference, ffi::ResultBuffer<ffi::F32> output) {
  const uint8_t* pixels = reference.typed_data();
  const int n_images = static_cast<int>(reference.dimensions()[0]);
  return write_logits<Network>(pool, particles, images, output,
                               [=](Network& network) { network.measure(pixels, n_images); });
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
