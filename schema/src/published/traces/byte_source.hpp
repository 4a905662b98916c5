#pragma once

// The bytes of a file from its beginning to its end, unpacked where it is gzip: a window at a time, so that memory does
// not follow the file. What went wrong is asked for at the end. Single-threaded.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::published {

class ByteSource {
 public:
  // Of one string or number: what claims to be longer is no trace.
  static constexpr std::size_t kLongestToken = std::size_t{16} << 20;

  // Refused: not there, a folder, a pipe, unreadable.
  [[nodiscard]] static Result<std::unique_ptr<ByteSource>> open(const std::string& path);
  // Of a text in memory, as it stands.
  explicit ByteSource(std::string_view text);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Whether there is a byte at all; current() and next() need that.
  [[nodiscard]] bool more() { return at_ != end_ || refill(); }
  [[nodiscard]] char current() const { return *at_; }
  void next() { ++at_; }

  // The first bytes (unpacked), as many as there are of `most`. REQUIRES: nothing was taken yet.
  [[nodiscard]] std::string_view peek(std::size_t most);
  [[nodiscard]] bool packed() const { return packed_; }
  // The reader understood something: a token ended here.
  void mark() { marked_ = taken(); }
  [[nodiscard]] std::uint64_t taken() const { return before_ + static_cast<std::uint64_t>(at_ - begin_); }
  // Why bytes ended before the file did; empty = they did not.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  ByteSource() = default;
  bool refill();
  std::size_t read_plain(char* to, std::size_t most);
  std::size_t unpack(char* to, std::size_t most);
  bool fill_packed();

  std::FILE* file_ = nullptr;
  bool packed_ = false;
  bool member_open_ = false;  // of the gzip stream
  z_stream stream_{};
  std::vector<unsigned char> packed_bytes_;
  std::vector<char> window_;
  const char* begin_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::uint64_t before_ = 0;  // bytes of earlier windows
  std::uint64_t marked_ = 0;
  std::string failure_;
};

// For parsers that take a range: reads on as it goes. Copies share the place.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  ByteIterator() = default;  // the end
  explicit ByteIterator(ByteSource& source) : source_(&source) {}
  char operator*() const { return source_->current(); }
  ByteIterator& operator++() {
    source_->next();
    return *this;
  }
  ByteIterator operator++(int) {
    ByteIterator before = *this;
    source_->next();
    return before;
  }
  // Only ever compared with the end.
  bool operator==(const ByteIterator& other) const { return is_end() == other.is_end(); }
  bool operator!=(const ByteIterator& other) const { return !(*this == other); }

 private:
  [[nodiscard]] bool is_end() const { return source_ == nullptr || !source_->more(); }
  ByteSource* source_ = nullptr;
};

}  // namespace trimtab::published
