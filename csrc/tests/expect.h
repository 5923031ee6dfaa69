// Expectations of the C++ tests: each failure is printed with its place, and counted. Main thread
// only.
#pragma once

#include <cstdio>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace expect {

inline int failures = 0;

template <class T>
std::string show(const T& value) {
  std::ostringstream text;
  if constexpr (std::is_enum_v<T>) {
    text << static_cast<long long>(value);
  } else {
    text << value;
  }
  return text.str();
}

template <class T>
std::string show(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + show(value);
  return text + "]";
}

inline void that(bool holds, const std::string& what, const char* file, int line) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "%s:%d: expected %s\n", file, line, what.c_str());
}

// The exit status of a test program.
inline int status() {
  if (failures > 0) std::fprintf(stderr, "%d expectations failed\n", failures);
  return failures > 0 ? 1 : 0;
}

}  // namespace expect

#define EXPECT(condition) expect::that((condition), #condition, __FILE__, __LINE__)

#define EXPECT_EQ(actual, expected)                                                        \
  do {                                                                                     \
    const auto actual_value = (actual);                                                    \
    const std::decay_t<decltype(actual_value)> expected_value = (expected);                \
    expect::that(actual_value == expected_value,                                           \
                 std::string(#actual " to be ") + expect::show(expected_value) + ", is " + \
                     expect::show(actual_value),                                           \
                 __FILE__, __LINE__);                                                      \
  } while (false)

// The statement must throw exactly this type, with a message that contains `text`.
#define EXPECT_THROWS(Exception, text, ...)                                                    \
  do {                                                                                         \
    std::string outcome = "nothing";                                                           \
    try {                                                                                      \
      __VA_ARGS__;                                                                             \
    } catch (const Exception& error) {                                                         \
      outcome = error.what();                                                                  \
    } catch (const std::exception& error) {                                                    \
      outcome = std::string("another type: ") + error.what();                                  \
    }                                                                                          \
    expect::that(                                                                              \
        outcome.find(text) != std::string::npos && outcome.find("another type") != 0,          \
        std::string(#__VA_ARGS__ " to throw " #Exception " '") + (text) + "', got " + outcome, \
        __FILE__, __LINE__);                                                                   \
  } while (false)
