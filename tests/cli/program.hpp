#pragma once

// Runs trimtab as people run it, and a directory that goes when the test ends.

#include <string>
#include <vector>

struct Outcome {
  int exit_code = -1;  // -1 = ended by a signal
  std::string out;
  std::string err;
};

class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }
  // Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& content) const;

 private:
  std::string directory_;
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
