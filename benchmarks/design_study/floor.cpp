// The machine's floor: what a random cache line, a copied byte and a random number cost at least.
//
//   floor REPEATS BYTES...
//
// Prints JSON: nanoseconds per line for a table of each size in BYTES, on huge and on small pages;
// gigabytes per second copied (bytes written); nanoseconds per bounded draw. From these follows the
// least time for a batch: lines of indptr times the cost of a line in a table of indptr's size, the
// same for indices, one table probe for each edge likewise, draws times the cost of a draw, and
// bytes written over the bandwidth of a copy.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "neighbor_draw.h"
#include "philox.h"
#include "platform.h"

namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

// Memory with a wish about its pages, touched everywhere.
class Pages {
 public:
  Pages(std::int64_t bytes, bool huge)
      : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage),
        data_(static_cast<char*>(std::aligned_alloc(static_cast<std::size_t>(kHugePage),
                                                    static_cast<std::size_t>(bytes_)))) {
    if (data_ == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(data_, static_cast<std::size_t>(bytes_), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
    static_cast<void>(huge);
#endif
    std::memset(data_, 1, static_cast<std::size_t>(bytes_));
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { std::free(data_); }

  char* data() { return data_; }

 private:
  std::int64_t bytes_;
  char* data_;
};

// Keeps the compiler from dropping the work that led to `value`.
void use(std::uint64_t value) {
  asm volatile("" : : "r"(value) : "memory");
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<double> repeat(int repeats, double unit, const std::function<void()>& work) {
  work();
  std::vector<double> values;
  for (int i = 0; i < repeats; ++i) values.push_back(seconds_of(work) * unit);
  return values;
}

// Reads a random line of the first `bytes`, again and again, each requested `kAhead` reads before
// its use: as many misses are in flight as the processor allows.
std::vector<double> random_lines(std::int64_t bytes, bool huge, int repeats) {
  constexpr std::int64_t kReads = 1 << 20;
  constexpr std::int64_t kAhead = 64;
  Pages table(bytes, huge);
  std::vector<std::int64_t> places(kReads + kAhead);
  const auto lines = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes / kLine, 1));
  const salient::DrawStream stream(1, 0, 0, 0);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto words = salient::philox_words(stream, static_cast<std::uint32_t>(i), 0, 0);
    places[i] = static_cast<std::int64_t>((std::uint64_t{words[0]} * lines) >> 32) * kLine;
  }
  return repeat(repeats, 1e9 / kReads, [&] {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kReads; ++i) {
      salient::prefetch_read(table.data() + places[i + kAhead]);
      sum += static_cast<std::uint64_t>(table.data()[places[i]]);
    }
    use(sum);
  });
}

std::vector<double> copy_bandwidth(int repeats) {
  constexpr std::size_t kBytes = std::size_t{128} << 20;
  Pages from(kBytes, true), to(kBytes, true);
  std::vector<double> values = repeat(repeats, 1, [&] {
    std::memcpy(to.data(), from.data(), kBytes);
    use(static_cast<std::uint64_t>(to.data()[kBytes / 2]));
  });
  for (double& seconds : values) seconds = static_cast<double>(kBytes) / seconds * 1e-9;
  return values;
}

std::vector<double> draws(salient::DrawBounded draw, int repeats) {
  constexpr std::uint32_t kFanout = 16;
  constexpr std::uint32_t kCalls = 20000;
  std::uint32_t position[salient::kLanes], bound[salient::kLanes];
  std::uint32_t drawn[kFanout * salient::kLanes];
  const salient::DrawStream stream(1, 0, 0, 0);
  return repeat(repeats, 1e9 / (kCalls * kFanout * salient::kLanes), [&] {
    for (std::uint32_t call = 0; call < kCalls; ++call) {
      for (std::uint32_t lane = 0; lane < salient::kLanes; ++lane) {
        position[lane] = call * salient::kLanes + lane;
        bound[lane] = 50 + call % 100;
      }
      draw(stream, position, bound, 1, kFanout, drawn);
      use(drawn[0]);
    }
  });
}

void print(const char* name, const char* unit, const std::vector<double>& values, bool last) {
  std::printf("{\"name\": \"%s\", \"unit\": \"%s\", \"values\": [", name, unit);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%.6g", i > 0 ? ", " : "", values[i]);
  }
  std::printf("]}%s\n", last ? "" : ",");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "floor: REPEATS BYTES...\n");
    return 1;
  }
  const int repeats = std::atoi(argv[1]);
  std::printf("[\n");
  for (int i = 2; i < argc; ++i) {
    const std::int64_t bytes = std::atoll(argv[i]);
    if (repeats < 1 || bytes < kLine) {
      std::fprintf(stderr, "floor: repeats and sizes must be positive\n");
      return 1;
    }
    for (const bool huge : {true, false}) {
      char name[80];
      std::snprintf(name, sizeof name, "random line, %lld bytes, %s pages",
                    static_cast<long long>(bytes), huge ? "huge" : "small");
      print(name, "ns", random_lines(bytes, huge, repeats), false);
    }
  }
  print("copy", "GB/s", copy_bandwidth(repeats), false);
  if (salient::avx2_draw_bounded() != nullptr) {
    print("draw, avx2", "ns", draws(salient::avx2_draw_bounded(), repeats), false);
  }
  print("draw, portable", "ns", draws(salient::portable_draw_bounded(), repeats), true);
  std::printf("]\n");
}
