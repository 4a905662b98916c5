#pragma once

// Result<T> is a value or an Error: how everything that a peer, a driver, a file or a person can cause is reported.
// Programming errors assert instead (base/check.hpp). Callable from any thread; a Result is a plain value.

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace trimtab {

// What kind of failure it is decides a program's exit code and whether to try again.
enum class ErrorKind {
  kNo,           // the question was understood and the answer is no (infeasible, check failed): exit 1
  kBadInput,     // wrong usage, a malformed or unsuitable document: exit 2
  kUnavailable,  // something outside failed (no agent, no permission, disk full): exit 3
};

// message says what was needed, what was found and what to do, in that order, without a final newline.
struct Error {
  ErrorKind kind = ErrorKind::kBadInput;
  std::string message;
};

[[nodiscard]] inline Error no(std::string message) { return {ErrorKind::kNo, std::move(message)}; }
[[nodiscard]] inline Error bad_input(std::string message) { return {ErrorKind::kBadInput, std::move(message)}; }
[[nodiscard]] inline Error unavailable(std::string message) { return {ErrorKind::kUnavailable, std::move(message)}; }

// The same failure, with the action that was attempted in front: "couldn't open the cost database: disk is full".
[[nodiscard]] inline Error wrap(const std::string& action, Error cause) {
  cause.message = action + ": " + cause.message;
  return cause;
}

[[nodiscard]] constexpr int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kNo: return 1;
    case ErrorKind::kBadInput: return 2;
    case ErrorKind::kUnavailable: return 3;
  }
  return 3;
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok(); asking a failure for its value throws std::bad_variant_access, which nobody catches.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// The result of what has no value to give.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  // REQUIRES: !ok().
  const Error& error() const { return error_.value(); }

 private:
  std::optional<Error> error_;
};

}  // namespace trimtab

#define TRIMTAB_CONCAT_INNER(a, b) a##b
#define TRIMTAB_CONCAT(a, b) TRIMTAB_CONCAT_INNER(a, b)

// TRIMTAB_TRY(auto model, parse_model(text)); binds the value or returns the error from the enclosing function.
#define TRIMTAB_TRY(binding, expression) TRIMTAB_TRY_NAMED(TRIMTAB_CONCAT(try_, __LINE__), binding, expression)
#define TRIMTAB_TRY_NAMED(name, binding, expression) \
  auto name = (expression);                          \
  if (!name.ok()) return std::move(name).error();    \
  binding = std::move(name).value()

// TRIMTAB_TRY_STATUS(store.begin()); returns the error from the enclosing function, if there is one.
#define TRIMTAB_TRY_STATUS(expression)                                 \
  do {                                                                 \
    if (auto try_status = (expression); !try_status.ok()) return try_status.error(); \
  } while (false)
