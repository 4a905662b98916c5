/* libcuda.so.1 as far as an injected library sees it: the first cuInit loads CUDA_INJECTION64_PATH and initialises it.
 */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);

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
  *count = 1;
  return 0;
}
