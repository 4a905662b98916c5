/* libcuda.so.1 as far as an injected library sees it: the first cuInit loads CUDA_INJECTION64_PATH and initialises it.
 */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);

int cuInit(unsigned flags) {
  static int initialised = 0;
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
