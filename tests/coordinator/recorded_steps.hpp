#pragma once

// Steps of real jobs, tests/coordinator/recorded_steps: what each took over the median, in order.

#include <fstream>
#include <string>
#include <vector>

namespace trimtab::coordinator {

inline std::vector<double> recorded(const std::string& job) {
  std::ifstream file(std::string(TRIMTAB_RECORDED_STEPS) + "/" + job + ".txt");
  std::vector<double> shares;
  std::string line;
  while (std::getline(file, line)) {
    if (line.front() == '#') continue;
    std::size_t at = 0;
    for (std::size_t used = 0; at < line.size(); at += used + 1) shares.push_back(std::stod(line.substr(at), &used));
  }
  return shares;
}

}  // namespace trimtab::coordinator
