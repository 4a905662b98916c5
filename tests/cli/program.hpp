#pragma once

// Runs trimtab as people run it, and a directory that goes when the test ends.

#include <string>
#include <vector>

#include "scratch.hpp"

struct Outcome {
  int exit_code = -1;  // -1 = ended by a signal
  std::string out;
  std::string err;
};

// A started trimtab; ended by force if a test leaves it running.
class Running {
 public:
  explicit Running(const std::vector<std::string>& arguments);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  void interrupt();  // Ctrl-C
  // What it has written to standard error so far.
  [[nodiscard]] std::string said() const;
  Outcome wait();

 private:
  Scratch scratch_;
  int pid_ = 0;
};

Outcome trimtab_program(const std::vector<std::string>& arguments);
std::string content_of(const std::string& path);
