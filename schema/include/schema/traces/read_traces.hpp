#pragma once

// Traces that other profilers wrote, read into what their ranks did: PyTorch Profiler's (Kineto's chrome traces, plain
// or gzip) and Nsight Systems' exports (`nsys export --type sqlite`). Reading streams: memory follows the kernels of
// one trace, some 60 bytes each, and not its text. Reads files; no clocks, no threads.

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/traces/traced_rank.hpp"

namespace trimtab {

// A path is a file, or a folder whose traces are meant: .json, .json.gz, .sqlite directly in it. `take` is given one
// rank after the other. A rank's number is the trace's own, else the file's name says it (rank-3, rank_3, rank3).
// Refused: what is no such trace (the error says what it looks like and what to do), a trace without anything that says
// where time goes.
[[nodiscard]] Status read_traces(const std::vector<std::string>& paths, const std::function<void(TracedRank)>& take);

}  // namespace trimtab
