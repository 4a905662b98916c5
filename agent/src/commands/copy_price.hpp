#pragma once

// What copying a job's checkpoint for a trial would take, before it is copied.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "commands/checkpoint_copy.hpp"
#include "commands/mounted_place.hpp"

namespace trimtab::agent {

struct CopyPrice {
  CopyContents contents;
  bool shared = false;  // the file system gives both the same blocks: nothing is written, and no room is needed
  double seconds = 0;   // an estimate
  std::string store;    // the object store that the checkpoint is in: "fuse.s3fs at /mnt/bucket"; empty: in none
  std::string refused;  // why no trial may copy it, with the figures and what to do; empty: one may

  bool operator==(const CopyPrice&) const = default;
};

// Of the file system that a copy is written to.
struct Room {
  Bytes size = 0;
  Bytes free = 0;  // for whoever is not root
};
[[nodiscard]] std::optional<Room> room_at(const std::string& path);

// Prices one job's checkpoint again and again. One thread, not the loop's: it walks through the checkpoint and copies a
// part of it to the scratch, which takes a second or so the first time.
class CopyPricer {
 public:
  // What is asked of the machine beside the files themselves.
  struct Machine {
    std::function<std::optional<Room>(const std::string&)> room = room_at;
    std::function<std::string()> mounts = read_mountinfo;
    std::function<Result<CopySample>(const CopyContents&, const std::string&, CopyWatch&)> sample = sample_copy;
  };
  // `limit`: bytes that a trial may copy. `seen`: how fast an earlier copy was, in bytes a second; nothing: a part is
  // copied to see.
  CopyPricer(Scratch scratch, Bytes limit, std::optional<double> seen, Machine machine);
  CopyPricer(Scratch scratch, Bytes limit, std::optional<double> seen)
      : CopyPricer(std::move(scratch), limit, seen, Machine()) {}

  // Nothing where the checkpoint cannot be read as a whole now, is not there, or the watch is cancelled.
  [[nodiscard]] std::optional<CopyPrice> price(const std::string& checkpoint, CopyWatch& watch);

 private:
  [[nodiscard]] double seconds_of(const CopyContents& contents) const;
  [[nodiscard]] std::string refusal(const CopyPrice& price, Bytes earlier) const;

  Scratch scratch_;
  Bytes limit_;
  std::optional<double> seen_;
  Machine machine_;
  std::optional<CopySample> sample_;
};

}  // namespace trimtab::agent
