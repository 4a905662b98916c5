#pragma once

// A trace as PyTorch Profiler writes it, of events that a test names. Times are microseconds.

#include <string>

namespace trimtab::test {

class MadeTrace {
 public:
  static constexpr double kBegin = 4203669604000;  // today's clocks have as many digits

  // Also the call that handed it out, `delay` before; none where that is 0.
  MadeTrace& kernel(const std::string& name, double begin, double length, double delay = 5, int stream = 7);
  // With what Kineto writes of a collective: elements in and out, of float32 unless said, over ranks 0 and 1 unless
  // said.
  struct Collective {
    std::string name = "allreduce";
    long in = 0;
    long out = 0;
    std::string dtype = "Float";
    int ranks = 2;
    std::string list = "[0, 1]";
    std::string more = {};  // members: R"("Seq":7)"
  };
  MadeTrace& collective(const std::string& kernel, double begin, double length, const Collective& what);
  MadeTrace& copy(double begin, double length);
  MadeTrace& step(int number, double begin, double length);
  MadeTrace& data(double begin, double length, const std::string& loader = "_SingleProcessDataLoaderIter");
  MadeTrace& host_operator(const std::string& name, double begin, double length);
  MadeTrace& reserved(double at, long bytes);
  // As it stands, without the comma.
  MadeTrace& event(const std::string& json);

  // With what the profiler writes beside the events; rank -1: it says none.
  [[nodiscard]] std::string text(int rank = 0, int world_size = 1, const std::string& host = "node1") const;
  [[nodiscard]] const std::string& events() const { return events_; }

 private:
  MadeTrace& add(const std::string& category, const std::string& name, double begin, double length,
                 const std::string& arguments, int thread);
  std::string events_;
  int next_ = 1;
};

inline const char* const kAllReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
inline const char* const kAllGather = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

// Eight steps of 10 ms, of which computation takes `computation`, an all-reduce 2 ms that nothing hides and a copy
// 0.5 ms; the rest idles.
[[nodiscard]] MadeTrace eight_steps(double computation = 6000);

}  // namespace trimtab::test
