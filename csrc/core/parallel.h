// Work split among threads that live as long as the call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace salient {

// Threads worth starting for `count` steps that take some nanoseconds each.
inline int useful_threads(int num_threads, std::int64_t count) {
  constexpr std::int64_t kStepsPerThread = 1 << 16;
  return static_cast<int>(
      std::clamp<std::int64_t>(count / kStepsPerThread, 1, std::max(num_threads, 1)));
}

// Calls work(thread) once for each thread in [0, num_threads), all at the same time, and waits. The
// caller's thread is thread 0. An exception reaches the caller once all have ended; of several,
// that of the lowest thread.
template <class Work>
void run_threads(int num_threads, const Work& work) {
  std::vector<std::exception_ptr> failed(static_cast<std::size_t>(num_threads));
  const auto guarded = [&](int thread) {
    try {
      work(thread);
    } catch (...) {
      failed[static_cast<std::size_t>(thread)] = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  others.reserve(static_cast<std::size_t>(num_threads));
  for (int thread = 1; thread < num_threads; ++thread) {
    try {
      others.emplace_back(guarded, thread);
    } catch (const std::system_error&) {  // no more threads to be had: the work is done here
      guarded(thread);
    }
  }
  guarded(0);
  others.clear();
  for (const std::exception_ptr& failure : failed) {
    if (failure) std::rethrow_exception(failure);
  }
}

// The part of [0, count) that is one thread's, in the order of the threads.
struct Part {
  std::int64_t begin;
  std::int64_t end;
};
inline Part part_of(std::int64_t count, int thread, int num_threads) {
  const std::int64_t size = count / num_threads, rest = count % num_threads;
  const std::int64_t begin = size * thread + std::min<std::int64_t>(rest, thread);
  return {begin, begin + size + (thread < rest ? 1 : 0)};
}

}  // namespace salient
