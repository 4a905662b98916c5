#include "cbc.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "skipping.hpp"

namespace trimtab::tuner::oases::test {
namespace {

constexpr double kKiB = 1024;  // rows of bytes would be out of scale with the binaries

std::string s(std::int32_t n, std::int32_t i) {
  return "s" + std::to_string(n) + "x" + std::to_string(i);
}

std::string e(std::int32_t n, std::int32_t i, std::int32_t j) {
  return "e" + std::to_string(n) + "x" + std::to_string(i) + "x" + std::to_string(j);
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// A strategy s for each node, a pair of strategies e for each edge that agrees with both.
class Program {
 public:
  Program(const Chain& chain, Objective objective) : chain_(chain), terms_(terms_of(chain, objective)) {}

  std::string text() {
    out_ << "Minimize\n obj:";
    costs();
    out_ << "\nSubject To\n";
    for (std::int32_t n = 0; n < chain_.nodes; ++n) node_row(n);
    for (std::int32_t n = 0; n + 1 < chain_.nodes; ++n) edge_rows(n);
    memory_row();
    out_ << "Binary\n";
    for (std::int32_t n = 0; n < chain_.nodes; ++n) {
      for (std::int32_t i = 0; i < chain_.options(); ++i) out_ << " " << s(n, i) << "\n";
    }
    out_ << "End\n";
    return out_.str();
  }

 private:
  void costs() {
    for (std::int32_t n = 0; n < chain_.nodes; ++n) {
      for (std::int32_t i = 0; i < chain_.options(); ++i) {
        const std::size_t at = chain_.at(n, i);
        out_ << "\n + " << number(terms_.node[at]) << " " << s(n, i);
        for (std::int32_t j = 0; j < chain_.options() && n + 1 < chain_.nodes; ++j) {
          out_ << "\n + " << number(terms_.edge[at * chain_.degrees.size() + j]) << " " << e(n, i, j);
        }
      }
    }
  }
  void node_row(std::int32_t n) {
    for (std::int32_t i = 0; i < chain_.options(); ++i) out_ << " + " << s(n, i);
    out_ << " = 1\n";
  }
  void edge_rows(std::int32_t n) {
    for (std::int32_t i = 0; i < chain_.options(); ++i) {
      for (std::int32_t j = 0; j < chain_.options(); ++j) out_ << " + " << e(n, i, j);
      out_ << " - " << s(n, i) << " = 0\n";
      for (std::int32_t j = 0; j < chain_.options(); ++j) out_ << " + " << e(n, j, i);
      out_ << " - " << s(n + 1, i) << " = 0\n";
    }
  }
  void memory_row() {
    for (std::int32_t n = 0; n < chain_.nodes; ++n) {
      for (std::int32_t i = 0; i < chain_.options(); ++i) {
        double bytes = chain_.memory[chain_.at(n, i)];
        if (n + 1 == chain_.nodes) bytes += chain_.buffer[i];
        out_ << "\n + " << number(bytes / kKiB) << " " << s(n, i);
      }
    }
    out_ << " <= " << number(chain_.limit / kKiB) << "\n";
  }

  const Chain& chain_;
  Terms terms_;
  std::ostringstream out_;
};

// "Optimal - objective value 434.00000000", then lines of index, name, value and reduced cost.
std::optional<CbcAnswer> read_solution(const std::string& path, const Chain& chain) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  CbcAnswer answer;
  if (line.find("nfeasible") != std::string::npos) return answer;
  if (line.rfind("Optimal", 0) != 0) return std::nullopt;
  answer.found = true;
  answer.cost = std::atof(line.substr(line.rfind(' ')).c_str());
  answer.choice.assign(static_cast<std::size_t>(chain.nodes), -1);
  while (std::getline(in, line)) {
    int index = 0, node = 0, option = 0;
    double value = 0;
    const bool strategy = std::sscanf(line.c_str(), "%d s%dx%d %lf", &index, &node, &option, &value) == 4;
    if (strategy && value > 0.5) answer.choice[node] = option;
  }
  return answer;
}

}  // namespace

bool cbc_is_there() {
  static const bool kThere = [] { return std::system("command -v cbc >/dev/null 2>&1") == 0; }();
  if (!kThere) trimtab::test::skip("the program cbc is not here (Debian: coinor-cbc)");
  return kThere;
}

std::optional<CbcAnswer> solve_with_cbc(const Chain& chain, Objective objective) {
  char directory[] = "/tmp/trimtab-cbc-XXXXXX";
  if (mkdtemp(directory) == nullptr) return std::nullopt;
  const std::string program = std::string(directory) + "/program.lp";
  const std::string solution = std::string(directory) + "/solution.txt";
  std::ofstream(program) << Program(chain, objective).text();
  const auto begin = std::chrono::steady_clock::now();
  const std::string command =
      "cbc " + program + " ratioGap 0 allowableGap 0 sec 100 solve solution " + solution + " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::optional<CbcAnswer> answer;
  if (status == 0) answer = read_solution(solution, chain);
  std::filesystem::remove_all(directory);
  if (answer) answer->seconds = took.count();
  return answer;
}

}  // namespace trimtab::tuner::oases::test
