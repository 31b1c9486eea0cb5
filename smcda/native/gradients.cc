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

template <typename Network>
void run(Task& task, Network& network, const uint8_t* images, const uint8_t* labels) {
  std::fill_n(task.gradient, Network::kParameters, 0.0f);
  if (task.begin == task.end) return;
  network.load(task.particle);
  for (int from = task.begin; from < task.end; from += kImagesASum) {
    const int to = std::min(from + kImagesASum, task.end);
    for (int i = from; i < to; i += kLanes)
      task.value += network.pass(images + static_cast<size_t>(i) * kSide * kSide, labels + i,
                                 std::min(kLanes, to - i));
    network.add_gradient(task.gradient);
  }
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

template <typename Network>
ffi::Error likelihood_sums(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles,
                           ffi::Buffer<ffi::U8> images, ffi::Buffer<ffi::U8> labels,
                           ffi::Buffer<ffi::S32> bounds, ffi::ResultBuffer<ffi::F32> value,
                           ffi::ResultBuffer<ffi::F32> gradient) {
  constexpr int kParameters = Network::kParameters;
  const int n_particles = static_cast<int>(particles.dimensions()[0]);
  const int n_stored = static_cast<int>(images.dimensions()[0]);
  const int* bound = bounds.typed_data();
  if (particles.dimensions()[1] != kParameters) return wrong_size();
  if (bound[0] < 0 || bound[2] > n_stored) return ffi::Error::InvalidArgument("the window leaves the data");

  std::vector<Task> tasks;
  std::vector<Sum> sums;
  for (int part = 0; part < 2; ++part) {
    const int begin = bound[part], end = std::max(begin, bound[part + 1]);
    const int groups = (end - begin + kLanes - 1) / kLanes;
    const int stretches = std::max(1, std::min(kTasks / n_particles, groups / kLeastGroups));
    for (int particle = 0; particle < n_particles; ++particle) {
      const size_t row = static_cast<size_t>(part) * n_particles + particle;
      sums.push_back({value->typed_data() + row, gradient->typed_data() + row * kParameters, stretches});
      for (int stretch = 0; stretch < stretches; ++stretch)
        tasks.push_back({particles.typed_data() + static_cast<size_t>(particle) * kParameters,
                         std::min(end, begin + groups * stretch / stretches * kLanes),
                         std::min(end, begin + groups * (stretch + 1) / stretches * kLanes)});
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
  share_out(pool, tasks.size(), [=, &tasks](size_t i) { run(tasks[i], own<Network>(), pixels, classes); });

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

// Logits of every particle on every image.
template <typename Network>
ffi::Error logits(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> particles, ffi::Buffer<ffi::U8> images,
                  ffi::ResultBuffer<ffi::F32> output) {
  constexpr int kParameters = Network::kParameters;
  const size_t n_images = images.dimensions()[0];
  if (particles.dimensions()[1] != kParameters) return wrong_size();
  const float* weights = particles.typed_data();
  const uint8_t* pixels = images.typed_data();
  float* to = output->typed_data();
  share_out(pool, particles.dimensions()[0], [=](size_t particle) {
    Network& network = own<Network>();
    network.load(weights + particle * kParameters);
    for (size_t i = 0; i < n_images; i += kLanes)
      network.logits(pixels + i * kSide * kSide, static_cast<int>(std::min<size_t>(kLanes, n_images - i)),
                     to + (particle * n_images + i) * kClasses);
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace smcda

#define SMCDA_HANDLERS(name, Network)                                                               \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_sums, smcda::likelihood_sums<smcda::Network>,                \
                                ffi::Ffi::Bind()                                                    \
                                    .Ctx<ffi::ThreadPool>()                                         \
                                    .Arg<ffi::Buffer<ffi::F32>>()                                   \
                                    .Arg<ffi::Buffer<ffi::U8>>()                                    \
                                    .Arg<ffi::Buffer<ffi::U8>>()                                    \
                                    .Arg<ffi::Buffer<ffi::S32>>()                                   \
                                    .Ret<ffi::Buffer<ffi::F32>>()                                   \
                                    .Ret<ffi::Buffer<ffi::F32>>());                                 \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_logits, smcda::logits<smcda::Network>,                       \
                                ffi::Ffi::Bind()                                                    \
                                    .Ctx<ffi::ThreadPool>()                                         \
                                    .Arg<ffi::Buffer<ffi::F32>>()                                   \
                                    .Arg<ffi::Buffer<ffi::U8>>()                                    \
                                    .Ret<ffi::Buffer<ffi::F32>>())

SMCDA_HANDLERS(lenet5, LeNet5);
SMCDA_HANDLERS(fashion_cnn, FashionCnn);
