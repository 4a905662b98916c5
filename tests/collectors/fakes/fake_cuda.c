/* libcuda.so.1 as far as an injected library sees it: the first cuInit loads CUDA_INJECTION64_PATH and initialises it.
 */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);

enum { FAKE_DEVICES = 2 };
static int initialised;

int cuInit(unsigned flags) {
  (void)flags;
  if (initialised) return 0;
  initialised = 1;
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path == NULL || strcmp(path, "none") == 0) return 0;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  int (*initialize)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "InitializeInjection");
  if (initialize == NULL || initialize() != 1) return 999;
  return 0;
}

/* CUDA_ERROR_NOT_INITIALIZED before cuInit, and no context made by asking. */
int cuDeviceGetCount(int* count);

int cuDeviceGetCount(int* count) {
  if (!initialised) return 3;
  *count = FAKE_DEVICES;
  return 0;
}

/* Two GPUs, of which the second is used through a MIG instance of its own. */
int cuDeviceGet(int* device, int number);
int cuDeviceGetUuid(unsigned char* uuid, int device);
int cuDeviceGetUuid_v2(unsigned char* uuid, int device);

int cuDeviceGet(int* device, int number) {
  if (!initialised) return 3;
  if (number < 0 || number >= FAKE_DEVICES) return 101;
  *device = number + 40;
  return 0;
}

int cuDeviceGetUuid(unsigned char* uuid, int device) {
  if (device < 40 || device >= 40 + FAKE_DEVICES) return 101;
  for (int i = 0; i < 16; ++i) uuid[i] = (unsigned char)(device - 40 + 16 * i);
  return 0;
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  const int result = cuDeviceGetUuid(uuid, device);
  if (result == 0 && device == 41) uuid[15] = 0xff;
  return result;
}
