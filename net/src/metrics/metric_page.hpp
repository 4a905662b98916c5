#pragma once

// What render_metrics() and its like have written, read again: the one page of metrics is the source of all that is
// told of them. For the daemon's own pages, not for foreign ones. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trimtab::net {

struct PageSample {
  std::string_view part;  // of a histogram: "_bucket", "_sum", "_count"; else empty
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

struct PageFamily {
  std::string_view name;
  std::string_view help;
  std::string_view type;  // counter, gauge or histogram
  std::vector<PageSample> samples;
};

// In the page's order; views into `page`. REQUIRES: each family has its HELP, then its TYPE, then its samples.
[[nodiscard]] std::vector<PageFamily> read_metric_page(std::string_view page);
// "+Inf", "NaN", "0.25". REQUIRES: metric_number() wrote it.
[[nodiscard]] double read_metric_number(std::string_view text);

}  // namespace trimtab::net
