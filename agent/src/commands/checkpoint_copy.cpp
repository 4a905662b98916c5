#include "commands/checkpoint_copy.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"
#include "base/descriptor.hpp"

namespace trimtab::agent {
namespace {

constexpr Nanoseconds kLookEvery = std::chrono::seconds(2);

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{16} << 20;
constexpr Bytes kSample = Bytes{64} << 20;
constexpr std::size_t kSampleChunk = std::size_t{4} << 20;
constexpr double kSampleSeconds = 1;
constexpr Bytes kInMemory = Bytes{1} << 30;  // what is less waits in memory to be written

Error failed(const char* action, const fs::path& path, const std::string& why) {
  return unavailable(std::string("couldn't ") + action + " " + path.string() + ": " + why);
}

bool is_inside(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

class Chunks {
 public:
  // As copy_file_range(); by way of memory where the two file systems do not let the kernel copy.
  ssize_t copy(int in, int out, std::size_t most) {
    while (in_kernel_) {
      const ssize_t count = ::copy_file_range(in, nullptr, out, nullptr, most, 0);
      if (count > 0 || (count < 0 && errno == ENOSPC)) return count;
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) break;  // its end, or a file system that says so of every file
      in_kernel_ = false;
    }
    buffer_.resize(most);
    ssize_t count = 0;
    do count = ::read(in, buffer_.data(), buffer_.size());
    while (count < 0 && errno == EINTR);
    for (ssize_t done = 0; done < count;) {
      const ssize_t written = ::write(out, buffer_.data() + done, static_cast<std::size_t>(count - done));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return written;
      done += written;
    }
    return count;
  }

 private:
  bool in_kernel_ = true;
  std::vector<char> buffer_;
};

// Where the next bytes after `at` begin that are no hole; both files go on there, so that the copy has the hole, too. A
// file system that knows no holes has none.
off_t skip_hole(int in, int out, off_t at) {
  off_t data = ::lseek(in, at, SEEK_DATA);
  if (data < 0) data = errno == ENXIO ? ::lseek(in, 0, SEEK_END) : at;
  if (data > at && (::ftruncate(out, data) != 0 || ::lseek(out, data, SEEK_SET) != data)) return -1;
  return ::lseek(in, data, SEEK_SET);
}

// How many bytes there are before the next hole, of so many at most. The file goes on where it was.
std::size_t before_hole(int in, off_t at, std::size_t most) {
  const off_t hole = ::lseek(in, at, SEEK_HOLE);
  ::lseek(in, at, SEEK_SET);
  return hole > at ? std::min(most, static_cast<std::size_t>(hole - at)) : most;
}

// Both have the same blocks then, until one of them is written to.
bool share_blocks(int in, int out) {
  return ::ioctl(out, FICLONE, in) == 0;
}

// Walks through a checkpoint as it is copied. Without a destination it is only looked at.
class Tree {
 public:
  Tree(fs::path source, fs::path destination, CopyWatch& watch)
      : source_(std::move(source)), destination_(std::move(destination)), watch_(watch) {}

  Status copy() { return copy_entry(source_, destination_); }
  [[nodiscard]] const CopyContents& seen() const { return seen_; }

 private:
  // `from` is no link.
  Status copy_entry(const fs::path& from, const fs::path& to) {
    if (watch_.cancelled) return unavailable("copying " + source_.string() + " was cancelled");
    std::error_code failure;
    const fs::file_status status = fs::symlink_status(from, failure);
    if (failure) return failed("read", from, failure.message());
    if (fs::is_directory(status)) return copy_directory(from, to);
    if (fs::is_regular_file(status)) return copies() ? copy_file(from, to) : look_at_file(from);
    return failed("copy", from, "it is neither a file nor a directory");
  }

  Status copy_directory(const fs::path& from, const fs::path& to) {
    const bool is_open = std::find(open_.begin(), open_.end(), from) != open_.end();
    if (is_open || (copies() && is_inside(from, destination_))) {
      return failed("copy", from, "a link below the checkpoint leads back to it");
    }
    std::error_code failure;
    if (copies()) fs::create_directory(to, failure);
    if (failure) return failed("make the directory", to, failure.message());
    open_.push_back(from);
    fs::directory_iterator entry(from, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      const fs::path beneath = to / entry->path().filename();
      std::error_code unknown;
      const bool link = entry->is_symlink(unknown);
      TRIMTAB_TRY_STATUS(link ? copy_link(entry->path(), beneath) : copy_entry(entry->path(), beneath));
    }
    open_.pop_back();
    return failure ? failed("read", from, failure.message()) : Status{};
  }

  Status copy_link(const fs::path& from, const fs::path& to) {
    std::error_code failure;
    const fs::path meant = fs::canonical(from, failure);
    if (failure == std::errc::no_such_file_or_directory) return {};
    if (failure) return failed("follow the link", from, failure.message());
    if (!is_inside(meant, source_)) return copy_entry(meant, to);
    if (!copies()) return {};
    // In the copy every directory on the way is a directory.
    const fs::path there = destination_ / meant.lexically_relative(source_);
    fs::create_symlink(there.lexically_normal().lexically_relative(to.parent_path()), to, failure);
    return failure ? failed("make the link", to, failure.message()) : Status{};
  }

  [[nodiscard]] bool copies() const { return !destination_.empty(); }

  Status look_at_file(const fs::path& from) {
    std::error_code failure;
    const auto size = static_cast<Bytes>(fs::file_size(from, failure));
    if (failure) return failed("read", from, failure.message());
    if (seen_.largest.empty() || size > largest_) {
      seen_.largest = from.string();
      largest_ = size;
    }
    ++seen_.files;
    seen_.bytes += size;
    return {};
  }

  Status copy_file(const fs::path& from, const fs::path& to) {
    const Descriptor in(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat found {};
    if (!in || ::fstat(in.get(), &found) != 0) return failed("read", from, std::strerror(errno));
    const Descriptor out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, found.st_mode & 0777));
    if (!out) return failed("write", to, std::strerror(errno));
    if (share_blocks(in.get(), out.get())) {
      watch_.bytes += static_cast<std::uint64_t>(found.st_size);
      return {};
    }
    std::int64_t size = 0;
    while (!watch_.cancelled) {
      const off_t begin = skip_hole(in.get(), out.get(), size);
      const ssize_t count = begin < 0 ? -1 : chunks_.copy(in.get(), out.get(), before_hole(in.get(), begin, kChunk));
      if (count < 0) return failed("copy", from, std::strerror(errno));
      watch_.bytes += static_cast<std::uint64_t>(begin + count - size);
      size = begin + count;
      if (count == 0) return size == found.st_size ? Status{} : failed("copy", from, "it changed meanwhile");
    }
    return unavailable("copying " + source_.string() + " was cancelled");
  }

  fs::path source_;
  fs::path destination_;
  CopyWatch& watch_;
  std::vector<fs::path> open_;  // the directories that are being copied, outermost first
  Chunks chunks_;
  CopyContents seen_;
  Bytes largest_ = 0;
};

// A file that is removed with its owner.
struct Removed {
  const std::string& path;
  ~Removed() { static_cast<void>(::unlink(path.c_str()) == 0); }
};

double seconds_since(Nanoseconds begin, const Clock& clock) {
  return std::chrono::duration<double>(clock.monotonic() - begin).count();
}

// How many bytes a second.
Result<double> speed_of(int in, int out, bool through_disk, const CopyWatch& watch) {
  const SystemClock clock;
  // Pages that wait to be written stay: a hint.
  if (through_disk) static_cast<void>(::posix_fadvise(in, 0, kSample, POSIX_FADV_DONTNEED) == 0);
  const Nanoseconds begin = clock.monotonic();
  Chunks chunks;
  Bytes copied = 0;
  while (copied < kSample && seconds_since(begin, clock) < kSampleSeconds && !watch.cancelled) {
    const ssize_t count = chunks.copy(in, out, kSampleChunk);
    if (count < 0) return unavailable(std::strerror(errno));
    if (count == 0) break;
    copied += count;
  }
  if (through_disk && ::fdatasync(out) != 0) return unavailable(std::strerror(errno));
  return static_cast<double>(copied) / std::max(seconds_since(begin, clock), 1e-6);
}

}  // namespace

Status copy_tree(const std::string& source, const std::string& destination, CopyWatch& watch) {
  std::error_code failure;
  const fs::path original = fs::canonical(source, failure);
  if (failure) return failed("find", source, failure.message());
  const fs::path copy = fs::weakly_canonical(destination, failure);
  if (failure) return failed("find", destination, failure.message());
  return Tree(original, copy, watch).copy();
}

Result<CopyContents> contents_of(const std::string& source, CopyWatch& watch) {
  std::error_code failure;
  const fs::path original = fs::canonical(source, failure);
  if (failure) return failed("find", source, failure.message());
  Tree tree(original, {}, watch);
  TRIMTAB_TRY_STATUS(tree.copy());
  return tree.seen();
}

Result<CopySample> sample_copy(const CopyContents& contents, const std::string& path, CopyWatch& watch) {
  const SystemClock clock;
  const Nanoseconds begin = clock.monotonic();
  const Descriptor in(::open(contents.largest.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!in) return failed("read", contents.largest, std::strerror(errno));
  // An agent that was killed may have left one.
  static_cast<void>(::unlink(path.c_str()) == 0);
  const Descriptor out(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out) return failed("write", path, std::strerror(errno));
  const Removed removed{path};
  CopySample sample;
  sample.shared = share_blocks(in.get(), out.get());
  sample.file_seconds = seconds_since(begin, clock);
  if (sample.shared) return sample;
  const auto speed = speed_of(in.get(), out.get(), contents.bytes > kInMemory, watch);
  if (!speed.ok()) return failed("copy", contents.largest, speed.error().message);
  sample.bytes_per_second = *speed;
  return sample;
}

// Beside first: a copy that was cut off is never taken for the checkpoint.
Status copy_checkpoint(const Scratch& scratch, const std::string& source, CopyWatch& watch) {
  const std::string copy = scratch.checkpoint();
  const std::string beside = copy + ".copying";
  std::error_code failure;
  std::filesystem::remove_all(copy, failure);
  if (!failure) std::filesystem::remove_all(beside, failure);
  if (failure) return unavailable("couldn't remove the earlier copy " + copy + ": " + failure.message());
  if (source.empty() || !std::filesystem::exists(source, failure)) return {};
  const auto copied = copy_tree(source, beside, watch);
  if (copied.ok()) std::filesystem::rename(beside, copy, failure);
  if (copied.ok() && !failure) return {};
  const std::string why = copied.ok() ? failure.message() : copied.error().message;
  // Room for what comes next.
  std::filesystem::remove_all(beside, failure);
  return unavailable("couldn't copy the checkpoint " + source + " to " + copy + ": " + why +
                     "; a trial needs as much room again");
}

CheckpointCopy::CheckpointCopy(net::EventLoop& loop, Scratch scratch, std::string source, Handlers handlers)
    : handlers_(std::move(handlers)), looks_(loop.every(kLookEvery, [this] { look(); })) {
  shared_->owner = this;
  thread_ = std::thread([&loop, shared = shared_, scratch = std::move(scratch), source = std::move(source)] {
    const SystemClock clock;
    const Nanoseconds begin = clock.monotonic();
    const Status status = copy_checkpoint(scratch, source, shared->watch);
    const double seconds = std::max(seconds_since(begin, clock), 1e-3);
    loop.post([shared, status, speed = static_cast<double>(shared->watch.bytes) / seconds] {
      if (shared->owner != nullptr) shared->owner->ended(status, status.ok() ? speed : 0);
    });
  });
}

CheckpointCopy::~CheckpointCopy() {
  shared_->owner = nullptr;
  shared_->watch.cancelled = true;
  thread_.join();
}

void CheckpointCopy::ended(const Status& status, double speed) {
  looks_.cancel();
  const auto done = std::move(handlers_.done);
  done(status, speed);
}

}  // namespace trimtab::agent
