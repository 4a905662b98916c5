#pragma once

// What ranks and the job's commands have printed is for those who may give orders: it can hold what the job was given
// in its environment. Others are told that there is some. Pure.

#include <string>

namespace trimtab::coordinator {

// The JSON document without it, wherever a text of it ends in what somebody printed last ("; its last output: …", "the
// last lines of rank 0: …").
[[nodiscard]] std::string without_rank_output(std::string document);

}  // namespace trimtab::coordinator
