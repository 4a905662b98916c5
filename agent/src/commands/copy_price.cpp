#include "commands/copy_price.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace trimtab::agent {
namespace {

constexpr Bytes kMargin = 20;  // a copy leaves one part in so many of the file system free

std::string words_of(const CopyPrice& price) {
  const std::string where = price.store.empty() ? "" : " of the object store " + price.store;
  return format_bytes(price.contents.bytes) + " in " + std::to_string(price.contents.files) +
         (price.contents.files == 1 ? " file" : " files") + where;
}

constexpr const char* kLess =
    "Keep fewer checkpoints in its folder, or leave out allow_restarts: the plan is then named and not tried";

}  // namespace

std::optional<Room> room_at(const std::string& path) {
  struct ::statvfs found {};
  if (::statvfs(path.c_str(), &found) != 0) return std::nullopt;
  const auto block = static_cast<Bytes>(found.f_frsize);
  return Room{static_cast<Bytes>(found.f_blocks) * block, static_cast<Bytes>(found.f_bavail) * block};
}

CopyPricer::CopyPricer(Scratch scratch, Bytes limit, std::optional<double> seen, Machine machine)
    : scratch_(std::move(scratch)), limit_(limit), seen_(seen), machine_(std::move(machine)) {}

std::optional<CopyPrice> CopyPricer::price(const std::string& checkpoint, CopyWatch& watch) {
  const auto contents = contents_of(checkpoint, watch);
  if (!contents.ok() || !scratch_.create().ok()) return std::nullopt;
  if (!sample_ && contents->bytes > 0) {
    const auto sample = machine_.sample(*contents, scratch_.path() + "/copy-sample", watch);
    if (sample.ok()) sample_ = *sample;
  }
  CopyPrice price;
  price.contents = *contents;
  price.shared = sample_ && sample_->shared;
  price.seconds = seconds_of(*contents);
  std::error_code failure;
  const std::string place = std::filesystem::canonical(checkpoint, failure).string();
  price.store = object_store(place_of(place, machine_.mounts()));
  // It is removed before the next is made.
  const auto earlier = contents_of(scratch_.checkpoint(), watch);
  price.refused = refusal(price, earlier.ok() ? earlier->bytes : 0);
  return price;
}

double CopyPricer::seconds_of(const CopyContents& contents) const {
  const auto bytes = static_cast<double>(contents.bytes);
  if (seen_ && *seen_ > 0) return bytes / *seen_;
  if (!sample_) return 0;
  const double moved = sample_->shared || sample_->bytes_per_second <= 0 ? 0 : bytes / sample_->bytes_per_second;
  return moved + static_cast<double>(contents.files) * sample_->file_seconds;
}

std::string CopyPricer::refusal(const CopyPrice& price, Bytes earlier) const {
  if (price.shared) return "";
  const std::string begin = "a trial would copy the checkpoint, " + words_of(price) + ", ";
  if (price.contents.bytes > limit_) {
    return begin + "and may copy " + format_bytes(limit_) + " at most (checkpoint_copy_limit in agent.toml). " + kLess +
           ", or raise the limit";
  }
  const auto room = machine_.room(scratch_.path());
  if (!room) return "";
  const Bytes left = std::max<Bytes>(room->free + earlier - room->size / kMargin, 0);
  if (price.contents.bytes <= left) return "";
  return begin + "and has room for " + format_bytes(left) + " in " + scratch_.path() + ", where a twentieth of " +
         format_bytes(room->size) + " stays free. Free room there. " + kLess;
}

}  // namespace trimtab::agent
