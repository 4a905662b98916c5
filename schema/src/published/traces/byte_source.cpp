#include "published/traces/byte_source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.hpp"

namespace trimtab::published {

namespace {

constexpr std::size_t kWindow = std::size_t{1} << 18;
constexpr std::size_t kPackedWindow = std::size_t{1} << 16;
constexpr int kGzip = 15 + 16;  // the largest window, a gzip header demanded

}  // namespace

Result<std::unique_ptr<ByteSource>> ByteSource::open(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::exists(path, failure) && !std::filesystem::is_regular_file(path, failure)) {
    return bad_input(path + ": expected a plain file, found a folder, pipe, socket or device");
  }
  std::unique_ptr<ByteSource> source(new ByteSource());
  source->file_ = std::fopen(path.c_str(), "rb");
  if (source->file_ == nullptr) return bad_input("cannot read " + path + ": " + std::strerror(errno));
  source->window_.resize(kWindow);
  source->packed_bytes_.resize(kPackedWindow);
  source->begin_ = source->at_ = source->end_ = source->window_.data();
  const std::size_t first = std::fread(source->packed_bytes_.data(), 1, kPackedWindow, source->file_);
  source->stream_.next_in = source->packed_bytes_.data();
  source->stream_.avail_in = static_cast<uInt>(first);
  source->packed_ = first >= 2 && source->packed_bytes_[0] == 0x1f && source->packed_bytes_[1] == 0x8b;
  if (source->packed_) {
    if (inflateInit2(&source->stream_, kGzip) != Z_OK) return unavailable("zlib cannot start: is memory short?");
    source->member_open_ = true;
  }
  return source;
}

ByteSource::ByteSource(std::string_view text)
    : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

ByteSource::~ByteSource() {
  if (packed_) inflateEnd(&stream_);
  if (file_ != nullptr) std::fclose(file_);
}

std::string_view ByteSource::peek(std::size_t most) {
  TRIMTAB_ASSERT(taken() == 0, "peek looks at a file's beginning");
  if (!more()) return {};
  return {at_, std::min(most, static_cast<std::size_t>(end_ - at_))};
}

bool ByteSource::refill() {
  if (file_ == nullptr || !failure_.empty()) return false;
  const std::uint64_t so_far = taken();
  if (so_far - marked_ > kLongestToken) {
    failure_ = "holds a text or a number of more than 16 MiB";
    return false;
  }
  const std::size_t count = packed_ ? unpack(window_.data(), kWindow) : read_plain(window_.data(), kWindow);
  before_ = so_far;
  begin_ = at_ = window_.data();
  end_ = begin_ + count;
  return count > 0;
}

// The first bytes were read to see whether they are gzip.
std::size_t ByteSource::read_plain(char* to, std::size_t most) {
  std::size_t count = std::min<std::size_t>(stream_.avail_in, most);
  std::memcpy(to, stream_.next_in, count);
  stream_.next_in += count;
  stream_.avail_in -= static_cast<uInt>(count);
  count += std::fread(to + count, 1, most - count, file_);
  if (std::ferror(file_) != 0) failure_ = "reading failed: " + std::string(std::strerror(errno));
  return count;
}

bool ByteSource::fill_packed() {
  if (stream_.avail_in > 0) return true;
  const std::size_t count = std::fread(packed_bytes_.data(), 1, kPackedWindow, file_);
  if (std::ferror(file_) != 0) failure_ = "reading failed: " + std::string(std::strerror(errno));
  stream_.next_in = packed_bytes_.data();
  stream_.avail_in = static_cast<uInt>(count);
  return count > 0;
}

std::size_t ByteSource::unpack(char* to, std::size_t most) {
  stream_.next_out = reinterpret_cast<Bytef*>(to);
  stream_.avail_out = static_cast<uInt>(most);
  while (stream_.avail_out > 0 && failure_.empty()) {
    if (!fill_packed()) {
      if (member_open_ && failure_.empty())
        failure_ = "the gzip stream ends early: the file is cut short; copy or record it again";
      break;
    }
    if (!member_open_) {
      if (inflateReset(&stream_) != Z_OK) failure_ = "zlib cannot go on";
      member_open_ = true;
    }
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      member_open_ = false;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      failure_ = "the gzip stream is damaged" + (stream_.msg != nullptr ? ": " + std::string(stream_.msg) : "");
    }
  }
  return most - stream_.avail_out;
}

}  // namespace trimtab::published
