/* Which versions of glibc's functions the injected libraries ask for. It is included before each of their files (CMakeLists.txt).
 *
 * A job's process brings its own glibc, often older than the one that is built with. glibc 2.34 gave the functions of libpthread and
 * libdl new versions when it took them in. The old versions are still there and do the same. With them the libraries load from
 * glibc 2.28 on (tests/packaging/test_glibc.py reads the symbols). Other architectures have other numbers, and the newest is used. */
#ifndef TRIMTAB_GLIBC_FLOOR_H
#define TRIMTAB_GLIBC_FLOOR_H

#if defined(__x86_64__) && defined(__linux__)
#define TRIMTAB_GLIBC_VERSION(function, version) __asm__(".symver " #function ", " #function "@GLIBC_" version)
TRIMTAB_GLIBC_VERSION(dladdr, "2.2.5");
TRIMTAB_GLIBC_VERSION(dlclose, "2.2.5");
TRIMTAB_GLIBC_VERSION(dlerror, "2.2.5");
TRIMTAB_GLIBC_VERSION(dlopen, "2.2.5");
TRIMTAB_GLIBC_VERSION(dlsym, "2.2.5");
TRIMTAB_GLIBC_VERSION(pthread_create, "2.2.5");
TRIMTAB_GLIBC_VERSION(pthread_detach, "2.2.5");
TRIMTAB_GLIBC_VERSION(pthread_getspecific, "2.2.5");
TRIMTAB_GLIBC_VERSION(pthread_key_create, "2.2.5");
TRIMTAB_GLIBC_VERSION(pthread_mutex_trylock, "2.2.5");
TRIMTAB_GLIBC_VERSION(pthread_once, "2.2.5");
TRIMTAB_GLIBC_VERSION(pthread_setname_np, "2.12");
TRIMTAB_GLIBC_VERSION(pthread_setspecific, "2.2.5");
TRIMTAB_GLIBC_VERSION(pthread_sigmask, "2.2.5");
#endif

#endif
