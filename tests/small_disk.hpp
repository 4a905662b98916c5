#pragma once

// A file system of a megabyte or a few for tests of full disks and of read-only places. Needs root (or CAP_SYS_ADMIN);
// without it a test that uses one is skipped.

#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "skipping.hpp"

namespace trimtab::test {

class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path, int megabytes = 1) : path_(path) {
    std::filesystem::create_directories(path);
    mounted_ = mount("tmpfs", path.c_str(), "tmpfs", 0, ("size=" + std::to_string(megabytes) + "m").c_str()) == 0;
    if (!mounted_) skip("this user may not mount a file system");
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  // So many blocks of 4 KiB, or until there is no room for a single byte.
  void fill(int blocks = 1 << 20) const {
    std::ofstream ballast(file("ballast"), std::ios::binary | std::ios::app);
    for (int i = 0; i < blocks && ballast; ++i) ballast << std::string(4096, 'x') << std::flush;
  }
  void free() const { std::filesystem::remove(file("ballast")); }
  [[nodiscard]] bool make_read_only() const { return mount("", path_.c_str(), "", MS_REMOUNT | MS_RDONLY, "") == 0; }

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace trimtab::test
