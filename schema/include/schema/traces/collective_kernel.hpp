#pragma once

// Which collective a kernel of NCCL carries out, as its name says it, and NCCL's words for collectives in ours. Pure;
// any thread.

#include <optional>
#include <string>
#include <string_view>

namespace trimtab {

// Of NCCL's kernels. What newer releases do not write into the name (one kernel serves several) is empty.
struct CollectiveKernel {
  std::string_view primitive;  // the cost kinds' names: "all_reduce", "send_recv", ...; "collective" where not said
  std::string_view algorithm;  // "ring", "tree", "nvls", ...
  std::string_view protocol;   // "ll", "ll128", "simple"
};
// Nothing where the name begins with none of ncclDevKernel, ncclKernel, ncclSymDevKernel and ncclSymkDevKernel, mangled
// or not.
[[nodiscard]] std::optional<CollectiveKernel> collective_kernel(std::string_view name);
// "AllReduce" (as NCCL's plugins call it) to "all_reduce"; what is not known comes back in lower case.
[[nodiscard]] std::string primitive_named(std::string_view function);

}  // namespace trimtab
