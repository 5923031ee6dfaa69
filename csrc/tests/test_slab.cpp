// Slabs and their pool.
#include "slab.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "expect.h"

namespace {

using namespace salient;

void check_slab() {
  Slab slab;
  EXPECT_EQ(slab.capacity(), std::int64_t{0});
  slab.reserve(0);
  EXPECT(slab.data() == nullptr);
  for (const std::int64_t bytes : {1, 4096, 4097, 3 << 20, 100 << 20}) {
    slab.reserve(bytes);
    EXPECT(slab.capacity() >= bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab.data()) % 4096, std::uintptr_t{0});
    std::memset(slab.data(), 1, static_cast<std::size_t>(bytes));
  }
  const std::int64_t capacity = slab.capacity();
  const std::byte* before = slab.data();
  slab.reserve(1);  // never shrinks, never moves without need
  EXPECT(slab.data() == before);
  EXPECT_EQ(slab.capacity(), capacity);
}

// More than any machine has: refused with both sizes, and the slab can still be used.
void check_too_much() {
  Slab slab;
  slab.reserve(5000);
  EXPECT_THROWS(std::runtime_error, "a batch needs", slab.reserve(std::int64_t{1} << 50));
  EXPECT_THROWS(std::runtime_error, "are available", slab.reserve(std::int64_t{1} << 50));
  slab.reserve(100);
  slab.data()[99] = std::byte{1};
}

// What a device's library would be told: its calls, in order.
std::vector<std::pair<char, void*>> g_calls;
int g_lock_result = 0;

PageLocker recording_locker() {
  PageLocker locker;
  locker.use_device = [](int device) {
    EXPECT_EQ(device, 3);
    return 0;
  };
  locker.lock = [](void* memory, std::size_t, unsigned int) {
    g_calls.emplace_back('L', memory);
    return g_lock_result;
  };
  locker.unlock = [](void* memory) {
    g_calls.emplace_back('U', memory);
    return 0;
  };
  locker.device = 3;
  return locker;
}

// Locked once, and unlocked before the memory goes, be it for growth or at the end.
void check_page_locking() {
  g_calls.clear();
  std::vector<std::pair<char, void*>> expected;
  {
    const auto pool = std::make_shared<SlabPool>(1);
    auto slab = pool->acquire();
    slab->reserve(5000);
    pool->lock(*slab);  // no locker yet
    EXPECT(g_calls.empty());
    pool->use_locker(recording_locker());
    pool->lock(*slab);
    pool->lock(*slab);
    slab->reserve(100);
    expected.emplace_back('L', slab->data());
    EXPECT(g_calls == expected);
    expected.emplace_back('U', slab->data());
    slab->reserve(1 << 20);
    EXPECT(g_calls == expected);
    pool->lock(*slab);
    expected.emplace_back('L', slab->data());
    expected.emplace_back('U', slab->data());
    slab.reset();
    EXPECT_EQ(g_calls.size(), std::size_t{3});  // in the pool it stays locked
    EXPECT_EQ(pool->lock_error(), 0);
  }
  EXPECT(g_calls == expected);
}

// The slab serves on, is not unlocked, and is tried again.
void check_page_locking_fails() {
  g_calls.clear();
  g_lock_result = 2;
  {
    const auto pool = std::make_shared<SlabPool>(1);
    pool->use_locker(recording_locker());
    const auto slab = pool->acquire();
    slab->reserve(5000);
    pool->lock(*slab);
    pool->lock(*slab);
    slab->data()[4999] = std::byte{1};
    EXPECT_EQ(pool->lock_error(), 2);
  }
  g_lock_result = 0;
  EXPECT_EQ(g_calls.size(), std::size_t{2});
}

void check_pool_reuses() {
  auto pool = std::make_shared<SlabPool>(2);
  auto first = pool->acquire();
  first->reserve(10000);
  const Slab* address = first.get();
  const std::int64_t capacity = first->capacity();
  EXPECT_EQ(pool->free_bytes(), std::int64_t{0});
  first.reset();
  EXPECT_EQ(pool->free_bytes(), capacity);
  auto again = pool->acquire();
  EXPECT(again.get() == address);
  EXPECT_EQ(again->capacity(), capacity);
  auto shared = again;
  again.reset();
  EXPECT_EQ(pool->free_bytes(), std::int64_t{0});  // one owner is left
  shared.reset();
  EXPECT_EQ(pool->free_bytes(), capacity);
}

void check_pool_keeps_few() {
  auto pool = std::make_shared<SlabPool>(3);
  std::vector<std::shared_ptr<Slab>> used;
  std::set<const Slab*> distinct;
  for (int i = 0; i < 10; ++i) {
    used.push_back(pool->acquire());
    used.back()->reserve(4096);
    distinct.insert(used.back().get());
  }
  EXPECT_EQ(distinct.size(), std::size_t{10});
  const std::int64_t capacity = used[0]->capacity();
  used.clear();
  EXPECT_EQ(pool->free_bytes(), 3 * capacity);
}

void check_slab_outlives_pool() {
  auto pool = std::make_shared<SlabPool>(2);
  auto slab = pool->acquire();
  slab->reserve(4096);
  pool.reset();
  std::memset(slab->data(), 1, 4096);
  slab.reset();
}

// Four threads take, write and let go; another watches.
void check_threads() {
  auto pool = std::make_shared<SlabPool>(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 300; ++i) {
        auto slab = pool->acquire();
        slab->reserve(4096 * (i % 3 + 1));
        slab->data()[0] = static_cast<std::byte>(t);
        if (slab->data()[0] != static_cast<std::byte>(t)) std::abort();
      }
    });
  }
  std::int64_t most = 0;
  for (int i = 0; i < 300; ++i) most = std::max(most, pool->free_bytes());
  for (std::thread& thread : threads) thread.join();
  EXPECT(most <= 3 * 5 * 4096);  // 3 pages and an eighth, in whole pages
  EXPECT(pool->free_bytes() <= 3 * 5 * 4096);
}

}  // namespace

int main() {
  check_slab();
  check_too_much();
  check_page_locking();
  check_page_locking_fails();
  check_pool_reuses();
  check_pool_keeps_few();
  check_slab_outlives_pool();
  check_threads();
  return expect::status();
}
