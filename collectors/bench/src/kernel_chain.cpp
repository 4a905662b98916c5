#include "kernel_chain.hpp"

#include <cmath>

#include "json.hpp"

namespace trimtab::bench {

std::string chain_line(const ChainRequest& request, const ChainTimes& times) {
  JsonObject chain;
  chain.add("kernel_ns", request.kernel_ns).raw("graph", request.graph ? "true" : "false");
  chain.add("kernels_per_step", request.kernels).add("kernels", times.kernels).add("copies", times.copies);
  chain.add("fills", times.fills).add("graph_launches", times.graph_launches);
  chain.add("first_launch_ns", std::llround(times.first_launch_ns)).add("resident_bytes", times.resident_bytes);
  chain.add("device_bytes", times.device_bytes).raw("step_ns", json_list(times.step_ns));
  chain.raw("host_ns_per_launch", json_list(times.host_ns_per_launch));
  chain.raw("gpu_ns_per_kernel", json_list(times.gpu_ns_per_kernel));
  return JsonObject().raw("chain", chain.text()).text();
}

}  // namespace trimtab::bench
