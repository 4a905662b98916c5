#pragma once

// Runs trimtab as people run it, and a directory that goes when the test ends.

#include <map>
#include <string>
#include <vector>

struct Outcome {
  int exit_code = -1;  // -1 = ended by a signal
  std::string out;
  std::string err;
};

// `environment` is added to this process's.
Outcome trimtab_program(const std::vector<std::string>& arguments,
                        const std::map<std::string, std::string>& environment = {});

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

std::string content_of(const std::string& path);
