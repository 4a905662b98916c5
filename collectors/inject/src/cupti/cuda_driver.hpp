#pragma once

// CUDA's driver, seen from a process that it has not called.

namespace trimtab::inject::cupti {

// Whether CUDA has begun in this process, or has been there and ended. Asking neither loads nor initialises the driver.
// Any thread; takes the loader's lock.
[[nodiscard]] bool cuda_has_begun();

}  // namespace trimtab::inject::cupti
