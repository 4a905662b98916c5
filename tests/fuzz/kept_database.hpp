#pragma once

// A database that all inputs use in turn and that each finds as if it had just been made: its rows are put back. Making
// one takes longer than most inputs.

#include <string>
#include <vector>

#include "schema/database.hpp"

namespace trimtab::fuzz {

// From now on this process keeps its databases' files in memory, by their names. To be called before any is opened.
void keep_files_in_memory();

class KeptDatabase {
 public:
  // Keeps what is in there now. The database exists, and nobody who has it open is in a transaction, here and below.
  KeptDatabase(const std::string& path, const Migrations& migrations);
  void put_back();
  [[nodiscard]] bool is_empty(const std::string& table) const;

 private:
  struct Table {
    std::string name;
    std::string insertion;
    Rows kept;
  };

  Database database_;
  std::vector<Table> tables_;
};

}  // namespace trimtab::fuzz
