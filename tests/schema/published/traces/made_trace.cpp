#include "made_trace.hpp"

#include <cstdio>

namespace trimtab::test {

namespace {

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

}  // namespace

MadeTrace& MadeTrace::event(const std::string& json) {
  events_ += (events_.empty() ? "" : ",\n") + json;
  return *this;
}

MadeTrace& MadeTrace::add(const std::string& category, const std::string& name, double begin, double length,
                          const std::string& arguments, int thread) {
  return event(R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":1,"tid":)" +
               std::to_string(thread) + R"(,"ts":)" + number(kBegin + begin) + R"(,"dur":)" + number(length) +
               R"(,"args":{)" + arguments + "}}");
}

MadeTrace& MadeTrace::kernel(const std::string& name, double begin, double length, double delay, int stream) {
  const std::string correlation = R"("correlation":)" + std::to_string(next_++);
  add("kernel", name, begin, length, R"("device":0,"stream":)" + std::to_string(stream) + "," + correlation, stream);
  return delay > 0 ? add("cuda_runtime", "cudaLaunchKernel", begin - delay, 3, correlation, 1) : *this;
}

MadeTrace& MadeTrace::collective(const std::string& kernel, double begin, double length, const Collective& what) {
  const std::string correlation = R"("correlation":)" + std::to_string(next_++);
  std::string arguments = R"("device":0,"stream":20,)" + correlation + R"(,"Collective name":")" + what.name +
                          R"(","In msg nelems":)" + std::to_string(what.in) + R"(,"Out msg nelems":)" +
                          std::to_string(what.out) + R"(,"Group size":)" + std::to_string(what.ranks) +
                          R"(,"dtype":")" + what.dtype + R"(","In split size":"[]","Process Group Name":"0",)" +
                          R"("Process Group Ranks":")" + what.list + "\"";
  if (!what.more.empty()) arguments += "," + what.more;
  add("kernel", kernel, begin, length, arguments, 20);
  return add("cuda_runtime", "cudaLaunchKernelExC", begin - 5, 3, correlation, 1);
}

MadeTrace& MadeTrace::copy(double begin, double length) {
  const std::string correlation = R"("correlation":)" + std::to_string(next_++);
  add("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", begin, length, R"("device":0,"stream":7,)" + correlation, 7);
  return add("cuda_runtime", "cudaMemcpyAsync", begin - 5, 3, correlation, 1);
}

MadeTrace& MadeTrace::step(int number, double begin, double length) {
  return add("user_annotation", "ProfilerStep#" + std::to_string(number), begin, length, "", 1);
}

MadeTrace& MadeTrace::data(double begin, double length, const std::string& loader) {
  return add("user_annotation", "enumerate(DataLoader)#" + loader + ".__next__", begin, length, "", 1);
}

MadeTrace& MadeTrace::host_operator(const std::string& name, double begin, double length) {
  return add("cpu_op", name, begin, length, R"("External id":1)", 1);
}

MadeTrace& MadeTrace::reserved(double at, long bytes) {
  return event(R"({"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":)" + number(kBegin + at) +
               R"(,"args":{"Total Reserved":)" + std::to_string(bytes) + R"(,"Device Type":1,"Device Id":0}})");
}

std::string MadeTrace::text(int rank, int world_size, const std::string& host) const {
  std::string text = R"({"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H100 80GB HBM3",)";
  text += R"("totalGlobalMem":85899345920}],"host_name":")" + host + "\",";
  if (rank >= 0) {
    text += R"("distributedInfo":{"backend":"nccl","rank":)" + std::to_string(rank) + R"(,"world_size":)" +
            std::to_string(world_size) + R"(,"pg_count":1,"nccl_version":"2.21.5"},)";
  }
  return text + "\n\"traceEvents\":[\n" + events_ + "\n]}\n";
}

MadeTrace eight_steps(double computation) {
  MadeTrace trace;
  for (int i = 0; i < 8; ++i) {
    const double begin = 10'000.0 * i;
    trace.step(i + 3, begin, 10'000);
    trace.kernel("gemm", begin + 10, computation).kernel(kAllReduce, begin + 10 + computation, 2000, 5, 20);
    trace.copy(begin + 10 + computation + 2000, 500);
  }
  // The last step ends where its device does: it idles as long as in the others before the last copy.
  return trace;
}

}  // namespace trimtab::test
