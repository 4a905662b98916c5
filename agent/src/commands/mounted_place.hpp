#pragma once

// Which file system a path is on, and whether objects of a store pose as its files. Pure, but for reading the table.

#include <string>
#include <string_view>

namespace trimtab::agent {

struct MountedPlace {
  std::string type;    // "ext4", "fuse.s3fs"
  std::string source;  // a device, a bucket, or what the program that mounts calls itself
  std::string point;   // where it is mounted
};

// Of an absolute path without links, by the text of a mountinfo (proc_pid_mountinfo(5)). Nothing is told where no line
// has it. Of mounts at one place the last counts.
[[nodiscard]] MountedPlace place_of(const std::string& path, std::string_view mountinfo);
// "fuse.s3fs at /mnt/bucket"; empty: the place is not known as an object store's.
[[nodiscard]] std::string object_store(const MountedPlace& place);
// The table of this process; empty where it cannot be read.
[[nodiscard]] std::string read_mountinfo();

}  // namespace trimtab::agent
