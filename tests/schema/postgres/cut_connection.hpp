#pragma once

// A server's door that closes at the worst moment: it passes on what a program and a PostgreSQL server say to each
// other, and cuts the connection when the program first asks to commit.

#include <sys/types.h>

#include <atomic>
#include <string>
#include <thread>

namespace trimtab::test {

enum class Cut {
  kBefore,  // the server never hears of the commit
  kAfter,   // the server has committed, the program never hears of it
  kUnseen,  // the server neither hears of it nor sees that the program is gone, until the program has asked twice
};

class CutConnection {
 public:
  // Listens in a new directory in front of the server whose socket is in `server`.
  CutConnection(std::string server, Cut cut);
  ~CutConnection();
  CutConnection(const CutConnection&) = delete;
  CutConnection& operator=(const CutConnection&) = delete;

  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] int cuts() const { return cuts_; }

 private:
  void serve();
  void pass(int client);
  // False when the connection is to end.
  bool pass_to_server(int client, int server);
  bool pass_to_client(int server, int client);

  const std::string server_;
  const Cut cut_;
  std::string directory_;
  int listener_ = -1;
  int held_ = -1;
  bool asked_ = false;  // the commit went on; its answer does not
  std::atomic<int> cuts_ = 0;
  std::thread thread_;
};

}  // namespace trimtab::test
