#include "ring_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

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

bool size_and_seal(int descriptor, std::size_t bytes) {
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return false;
  if (fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) != 0) return false;
  return fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

}  // namespace

RingMemory create_ring_memory(std::size_t bytes) {
  RingMemory memory;
  const int descriptor = create_memfd();
  if (descriptor < 0) return memory;
  void* address = MAP_FAILED;
  if (size_and_seal(descriptor, bytes)) {
    address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (address == MAP_FAILED) {
    close(descriptor);
    return memory;
  }
  memory.address = address;
  memory.bytes = bytes;
  memory.descriptor = OwnedDescriptor::adopt(descriptor);
  return memory;
}

}  // namespace trimtab::inject
