#include "commands/checkpoint_copy.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"

namespace trimtab::agent {
namespace {

constexpr Nanoseconds kLookEvery = std::chrono::seconds(2);

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{16} << 20;

Error failed(const char* action, const fs::path& path, const std::string& why) {
  return unavailable(std::string("couldn't ") + action + " " + path.string() + ": " + why);
}

bool is_inside(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

class Tree {
 public:
  Tree(fs::path source, fs::path destination, CopyWatch& watch)
      : source_(std::move(source)), destination_(std::move(destination)), watch_(watch) {}

  Status copy() { return copy_entry(source_, destination_); }

 private:
  // `from` is no link.
  Status copy_entry(const fs::path& from, const fs::path& to) {
    if (watch_.cancelled) return unavailable("copying " + source_.string() + " was cancelled");
    std::error_code failure;
    const fs::file_status status = fs::symlink_status(from, failure);
    if (failure) return failed("read", from, failure.message());
    if (fs::is_directory(status)) return copy_directory(from, to);
    if (fs::is_regular_file(status)) return copy_file(from, to);
    return failed("copy", from, "it is neither a file nor a directory");
  }

  Status copy_directory(const fs::path& from, const fs::path& to) {
    const bool is_open = std::find(open_.begin(), open_.end(), from) != open_.end();
    if (is_open || is_inside(from, destination_)) {
      return failed("copy", from, "a link below the checkpoint leads back to it");
    }
    std::error_code failure;
    fs::create_directory(to, failure);
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
    // In the copy every directory on the way is a directory.
    const fs::path there = destination_ / meant.lexically_relative(source_);
    fs::create_symlink(there.lexically_normal().lexically_relative(to.parent_path()), to, failure);
    return failure ? failed("make the link", to, failure.message()) : Status{};
  }

  Status copy_file(const fs::path& from, const fs::path& to) {
    const Descriptor in(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat found {};
    if (!in || ::fstat(in.get(), &found) != 0) return failed("read", from, std::strerror(errno));
    const Descriptor out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, found.st_mode & 0777));
    if (!out) return failed("write", to, std::strerror(errno));
    std::int64_t size = 0;
    while (!watch_.cancelled) {
      const ssize_t count = copy_chunk(in.get(), out.get());
      if (count < 0) return failed("copy", from, std::strerror(errno));
      if (count == 0) return size == found.st_size ? Status{} : failed("copy", from, "it changed meanwhile");
      size += count;
      watch_.bytes += static_cast<std::uint64_t>(count);
    }
    return unavailable("copying " + source_.string() + " was cancelled");
  }

  // As copy_file_range(); by way of memory where the two file systems do not let the kernel copy.
  ssize_t copy_chunk(int in, int out) {
    while (in_kernel_) {
      const ssize_t count = ::copy_file_range(in, nullptr, out, nullptr, kChunk, 0);
      if (count > 0 || (count < 0 && errno == ENOSPC)) return count;
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) break;  // its end, or a file system that says so of every file
      in_kernel_ = false;
    }
    buffer_.resize(kChunk);
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

  fs::path source_;
  fs::path destination_;
  CopyWatch& watch_;
  std::vector<fs::path> open_;  // the directories that are being copied, outermost first
  bool in_kernel_ = true;
  std::vector<char> buffer_;
};

}  // namespace

Status copy_tree(const std::string& source, const std::string& destination, CopyWatch& watch) {
  std::error_code failure;
  const fs::path original = fs::canonical(source, failure);
  if (failure) return failed("find", source, failure.message());
  const fs::path copy = fs::weakly_canonical(destination, failure);
  if (failure) return failed("find", destination, failure.message());
  return Tree(original, copy, watch).copy();
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
    const Status status = copy_checkpoint(scratch, source, shared->watch);
    loop.post([shared, status] {
      if (shared->owner != nullptr) shared->owner->ended(status);
    });
  });
}

CheckpointCopy::~CheckpointCopy() {
  shared_->owner = nullptr;
  shared_->watch.cancelled = true;
  thread_.join();
}

void CheckpointCopy::ended(const Status& status) {
  looks_.cancel();
  const auto done = std::move(handlers_.done);
  done(status);
}

}  // namespace trimtab::agent
