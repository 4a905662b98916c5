#include "records/activity_report.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace trimtab;
using namespace trimtab::agent;

namespace {

RankActivity sample() {
  RankActivity activity;
  activity.on_device = true;
  activity.collector = {3, 1, 0.02, 1.5, 4, 5};
  activity.steps = 12;
  activity.steps_measured = 8;
  activity.step_seconds = 0.25;
  activity.computation = 0.5;
  activity.exposed_communication = 0.25;
  activity.idle = 0.25;
  activity.stream_seconds = 0.2;
  activity.streams.push_back({7, 100'000'000, 0, 0});
  activity.gpu_clock = trimtab::ClockDifference::Offset{2'500'000'000, 1000};
  activity.busiest_seconds = 2;
  activity.busiest.push_back({"gemm", KernelClass::kGemm, false, 1'000'000'000, 500});
  return activity;
}

}  // namespace

TEST_CASE("what a rank does is told with its shares, streams and busiest kernels") {
  const auto message = to_wire({"j", "", 3}, sample());
  CHECK(message.job() == "j");
  CHECK(message.rank() == 3);
  CHECK(message.step() == -1);
  CHECK(message.computation() == 0.5);
  REQUIRE(message.streams_size() == 1);
  CHECK(message.streams(0).computation() == Approx(0.5));
  REQUIRE(message.busiest_size() == 1);
  CHECK(message.busiest(0).share() == Approx(0.5));
  CHECK(message.busiest(0).mean_ns() == 2'000'000);
  CHECK(message.busiest(0).kernel_class() == "gemm");
}

TEST_CASE("of what waiting was for, only what is known is told") {
  RankActivity activity = sample();
  activity.parts.bubble = 0.125;
  activity.parts.data = 0;
  const auto message = to_wire({"j", "", 3}, activity);
  CHECK(message.parts().bubble() == 0.125);
  CHECK(message.parts().has_data());
  CHECK_FALSE(message.parts().has_gradients());
  CHECK_FALSE(message.parts().has_launch_bound());
  activity.on_device = false;
  CHECK_FALSE(to_wire({"j", "", 3}, activity).has_parts());
}

TEST_CASE("a rank's devices are named by UUID, so that they are found among the node's") {
  RankActivity activity = sample();
  activity.devices = {{0, "GPU-b"}, {1, "GPU-a"}};
  std::vector<net::Metric> metrics;
  add_activity_metrics({{{"j", "", 0}, activity}}, metrics);
  const std::string text = net::render_metrics(metrics);
  INFO(text);
  CHECK(text.find("trimtab_rank_device_info{job=\"j\",rank=\"0\",device=\"0\",uuid=\"GPU-b\"} 1\n") !=
        std::string::npos);
  CHECK(text.find("trimtab_rank_device_info{job=\"j\",rank=\"0\",device=\"1\",uuid=\"GPU-a\"} 1\n") !=
        std::string::npos);
}

TEST_CASE("metrics of ranks have bounded labels, and one family after the other") {
  std::vector<net::Metric> metrics;
  add_activity_metrics({{{"j\"x", "", 0}, sample()}, {{"j\"x", "untuned", 1}, sample()}}, metrics);
  const std::string text = net::render_metrics(metrics);
  INFO(text);
  CHECK(metrics.size() == 2 * (4 + 6 + 5 + 3 + 2));
  CHECK(text.find("trimtab_rank_steps_total{job=\"j\\\"x\",rank=\"0\"} 12\n") != std::string::npos);
  CHECK(text.find("trimtab_rank_step_share{job=\"j\\\"x\",rank=\"0\",share=\"idle\"} 0.25\n") != std::string::npos);
  CHECK(text.find("trimtab_rank_step_seconds{job=\"j\\\"x\",variant=\"untuned\",rank=\"1\"} 0.25\n") !=
        std::string::npos);
  CHECK(text.find("trimtab_rank_collector_cost_seconds_total{job=\"j\\\"x\",rank=\"0\"} 1.5\n") != std::string::npos);
  CHECK(text.find("trimtab_rank_cupti_state{job=\"j\\\"x\",rank=\"0\"} 1\n") != std::string::npos);
  CHECK(text.find("trimtab_rank_cupti_records_dropped_total{job=\"j\\\"x\",rank=\"0\"} 5\n") != std::string::npos);
  CHECK(text.find("trimtab_rank_stream_share{job=\"j\\\"x\",rank=\"0\",share=\"computation\",stream=\"7\"} 0.5\n") !=
        std::string::npos);
  CHECK(text.find("trimtab_rank_gpu_clock_offset_seconds{job=\"j\\\"x\",rank=\"0\"} 2.5\n") != std::string::npos);
  for (const char* family : {"trimtab_rank_steps_total", "trimtab_rank_step_share", "trimtab_rank_stream_share",
                             "trimtab_rank_gpu_clock_uncertainty_seconds"}) {
    const std::string type = std::string("# TYPE ") + family + " ";
    CHECK(text.find(type) == text.rfind(type));
  }
}
