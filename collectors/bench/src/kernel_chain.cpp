#include "kernel_chain.hpp"

#include <cmath>

namespace trimtab::bench {

namespace {

std::string numbers(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + std::to_string(std::llround(value));
  return "[" + text + "]";
}

}  // namespace

std::string chain_line(const ChainRequest& request, const ChainTimes& times) {
  const auto field = [](const char* name, const std::string& value) {
    return std::string("\"") + name + "\": " + value;
  };
  return "{\"chain\": {" + field("kernel_ns", std::to_string(request.kernel_ns)) + ", " +
         field("graph", request.graph ? "true" : "false") + ", " +
         field("kernels_per_step", std::to_string(request.kernels)) + ", " +
         field("kernels", std::to_string(times.kernels)) + ", " + field("copies", std::to_string(times.copies)) + ", " +
         field("fills", std::to_string(times.fills)) + ", " +
         field("graph_launches", std::to_string(times.graph_launches)) + ", " +
         field("first_launch_ns", std::to_string(std::llround(times.first_launch_ns))) + ", " +
         field("resident_bytes", std::to_string(times.resident_bytes)) + ", " +
         field("device_bytes", std::to_string(times.device_bytes)) + ", " + field("step_ns", numbers(times.step_ns)) +
         ", " + field("host_ns_per_launch", numbers(times.host_ns_per_launch)) + ", " +
         field("gpu_ns_per_kernel", numbers(times.gpu_ns_per_kernel)) + "}}";
}

}  // namespace trimtab::bench
