#include "published/text_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "documents/json_document.hpp"

namespace trimtab::published {

namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;

std::string size_text(std::size_t bytes) {
  return bytes < (std::size_t{1} << 30) ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 30) + " GiB";
}

// A pipe or a device could keep the reader for ever, and a large file must not be read to be refused.
Result<std::string> read_bytes(const std::string& path, std::size_t most) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) return bad_input(path + ": expected a file, found a directory");
  if (std::filesystem::exists(path, failure) && !std::filesystem::is_regular_file(path, failure)) {
    return bad_input(path + ": expected a plain file, found a pipe, socket or device");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, failure);
  if (!failure && size > most) {
    return bad_input(path + ": expected at most " + size_text(most) + ", found " + std::to_string(size) + " bytes");
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return bad_input("cannot read " + path + ": " + std::strerror(errno));
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (stream.bad()) return bad_input("cannot read " + path + ": " + std::strerror(errno));
  return bytes;
}

// Unpacks a gzip stream of one or more members.
class Inflater {
 public:
  explicit Inflater(std::string_view packed) {
    // zlib's type is not const, though it only reads.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    ready_ = inflateInit2(&stream_, kGzip) == Z_OK;
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // What is wrong with the stream; empty when it was unpacked whole.
  std::string unpack(std::string& text) {
    if (!ready_) return "zlib cannot start";
    while (true) {
      const int code = inflate_some(text);
      if (text.size() > kMaxText) return "unpacks to more than 1 GiB";
      if (code == Z_STREAM_END && stream_.avail_in == 0) return "";
      if (code == Z_STREAM_END) {
        if (inflateReset(&stream_) != Z_OK) return "zlib cannot go on";
      } else if (code == Z_OK && stream_.avail_in == 0 && stream_.avail_out != 0) {
        return kCut;
      } else if (code == Z_BUF_ERROR) {
        return kCut;
      } else if (code != Z_OK) {
        return "the gzip stream is damaged" + (stream_.msg != nullptr ? ": " + std::string(stream_.msg) : "");
      }
    }
  }

 private:
  static constexpr int kGzip = 15 + 16;  // the largest window, a gzip header demanded
  static constexpr const char* kCut = "the gzip stream ends early: the file is cut short; fetch it again";

  int inflate_some(std::string& text) {
    stream_.next_out = buffer_.data();
    stream_.avail_out = static_cast<uInt>(buffer_.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    text.append(reinterpret_cast<const char*>(buffer_.data()), buffer_.size() - stream_.avail_out);
    return code;
  }

  z_stream stream_{};
  bool ready_ = false;
  std::array<Bytef, 1 << 16> buffer_{};
};

Result<TextFile> read_packed(const std::string& path) {
  TRIMTAB_TRY(const std::string packed, read_bytes(path, kMaxText));
  TextFile file{path, {}};
  const std::string failure = Inflater(packed).unpack(file.text);
  if (!failure.empty()) return bad_input(path + ": " + failure);
  return file;
}

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

}  // namespace

bool fit_for_a_file_name(std::string_view text) {
  return !text.empty() && text.front() != '.' && std::all_of(text.begin(), text.end(), plain);
}

Result<TextFile> read_text_file(const std::string& directory, const std::string& name) {
  const std::string unpacked = directory + "/" + name;
  const std::string packed = unpacked + ".gz";
  std::error_code failure;
  const bool has_unpacked = std::filesystem::exists(unpacked, failure);
  const bool has_packed = std::filesystem::exists(packed, failure);
  if (has_unpacked && has_packed) return bad_input(unpacked + ": there is also " + packed + "; remove one of them");
  if (has_packed) return read_packed(packed);
  if (!has_unpacked) return bad_input(unpacked + ": expected this file, or " + name + ".gz; neither is there");
  TextFile file{unpacked, {}};
  TRIMTAB_TRY(file.text, read_bytes(unpacked, kMaxText));
  return file;
}

Result<TextFile> read_raw_file(const std::string& directory, const std::string& name) {
  TextFile file{directory + "/" + name, {}};
  TRIMTAB_TRY(file.text, read_bytes(file.path, kMaxRawBytes));
  return file;
}

Result<std::vector<std::string>> names_in(const std::string& directory) {
  constexpr std::size_t kMostNames = 100000;
  std::error_code failure;
  std::filesystem::directory_iterator entries(directory, failure);
  if (failure) return bad_input(directory + ": expected a directory that can be read: " + failure.message());
  std::vector<std::string> names;
  for (const std::filesystem::directory_iterator end; !failure && entries != end; entries.increment(failure)) {
    if (names.size() == kMostNames) return bad_input(directory + ": holds more than 100000 files");
    std::error_code unknown;
    const bool folder = entries->is_directory(unknown);
    names.push_back(entries->path().filename().string() + (folder ? "/" : ""));
  }
  if (failure) return bad_input("cannot list " + directory + ": " + failure.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::string none_among(const std::vector<std::string>& names) {
  if (names.empty()) return "an empty directory";
  return "none among " + std::to_string(names.size()) + " names, of which the first is " + quoted_text(names.front());
}

}  // namespace trimtab::published
