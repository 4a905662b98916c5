#pragma once

// A small published directory in Aceso's neutral form, which a test then damages.

#include <string>

#include "../sample_costs.hpp"

namespace trimtab::test {

class PublishedFiles {
 public:
  PublishedFiles();
  [[nodiscard]] std::string path() const { return directory_.path(); }
  void write(const std::string& name, const std::string& text) const;
  [[nodiscard]] std::string read(const std::string& name) const;
  // Replaces the first occurrence, which must exist.
  void replace(const std::string& name, const std::string& what, const std::string& by) const;
  void remove(const std::string& name) const;
  // NAME becomes NAME.gz.
  void pack(const std::string& name) const;

 private:
  TemporaryDirectory directory_;
};

}  // namespace trimtab::test
