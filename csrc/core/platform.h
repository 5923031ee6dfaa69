// What depends on compiler and processor: prefetch, function multi-versioning, inlining.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SALIENT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define SALIENT_SANITIZED 1
#endif
#endif

// One portable binary holds an AVX2 copy of the hot loops, chosen when the library is loaded.
// Every copy does the same integer arithmetic, so results do not depend on the processor.
// Sanitizers are not yet set up when the loader makes that choice, so they get one copy.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(SALIENT_SANITIZED) && !defined(SALIENT_NATIVE)
#define SALIENT_MULTIVERSION __attribute__((target_clones("avx2", "default")))
#else
#define SALIENT_MULTIVERSION
#endif

#define SALIENT_INLINE inline __attribute__((always_inline))

namespace salient {

SALIENT_INLINE void prefetch_read(const void* address) {
  __builtin_prefetch(address, 0, 3);
}
SALIENT_INLINE void prefetch_write(const void* address) {
  __builtin_prefetch(address, 1, 3);
}

}  // namespace salient
