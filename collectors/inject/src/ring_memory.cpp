#include "ring_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "file_status.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace trimtab::inject {

namespace {

int create_memfd() {
  const int descriptor = memfd_create("trimtab-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (descriptor >= 0 || errno != EINVAL) return descriptor;
  return memfd_create("trimtab-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // before Linux 6.3
}

bool fits_limit(std::size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

bool size_and_seal(int descriptor, std::size_t bytes) {
  if (!fits_limit(bytes)) return false;
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return false;
  if (fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) != 0) return false;
  return fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

int above_standard_streams(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(descriptor);
  return moved;
}

}  // namespace

OwnedDescriptor OwnedDescriptor::adopt(int descriptor) {
  OwnedDescriptor owned;
  descriptor = above_standard_streams(descriptor);
  struct stat status {};
  if (descriptor < 0 || !read_status(descriptor, status)) return owned;
  owned.descriptor_ = descriptor;
  owned.device_ = status.st_dev;
  owned.inode_ = status.st_ino;
  return owned;
}

int OwnedDescriptor::get() const {
  struct stat status {};
  if (descriptor_ < 0 || !read_status(descriptor_, status)) return -1;
  return status.st_dev == device_ && status.st_ino == inode_ ? descriptor_ : -1;
}

void OwnedDescriptor::close() {
  const int descriptor = get();
  if (descriptor >= 0) ::close(descriptor);
  descriptor_ = -1;
}

RingMemory create_ring_memory(std::size_t bytes) {
  RingMemory memory;
  OwnedDescriptor owned = OwnedDescriptor::adopt(create_memfd());
  const int descriptor = owned.get();
  if (descriptor < 0) return memory;
  void* address = MAP_FAILED;
  if (size_and_seal(descriptor, bytes)) {
    address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (address == MAP_FAILED) {
    owned.close();
    return memory;
  }
  memory.address = address;
  memory.bytes = bytes;
  memory.descriptor = owned;
  return memory;
}

}  // namespace trimtab::inject
