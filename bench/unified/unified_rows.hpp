#pragma once

// What unified_table has measured so far: a CSV file that a run appends to, so that one that was ended goes on where it
// was, and the Markdown tables made of it.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::bench {

// One setting: `unified` and every single strategy on the same cost model.
struct Comparison {
  std::string profile, cost_model, setting;
  double ms = 0;  // of unified; infinite where nothing fits
  double bound_ms = 0;
  bool proven = false;
  double seconds = 0;
  std::map<std::string, double> single;  // ms by strategy; those that mean something there
};

// One world: what unified finds with all knobs, and without each family of them.
struct Ablation {
  std::string world;
  double ms = 0;
  std::map<std::string, double> without;
};

class Rows {
 public:
  // Reads what the file has; it need not exist. Ends the program on a line that is not one of its own.
  explicit Rows(std::string path);

  [[nodiscard]] bool has(const std::string& profile, const std::string& cost_model, const std::string& setting) const;
  [[nodiscard]] bool has_ablation(const std::string& world) const;
  void add(const Comparison& row);
  void add(const Ablation& row);
  // All tables, of what there is.
  void print() const;

 private:
  void read(const std::string& line);
  void append(const std::string& line) const;

  std::string path_;
  std::vector<Comparison> comparisons_;
  std::vector<Ablation> ablations_;
};

}  // namespace trimtab::bench
