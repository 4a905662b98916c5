"""The Grafana dashboard against Grafana's own types, as its package @grafana/schema has them."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from metric_pages import DASHBOARD

PACKAGES = ["@grafana/schema@13.2.3", "typescript@5.9.3"]
# A document has the values of enumerations where TypeScript wants their members (Written). Of a panel's options and a
# query's fields, Grafana's Dashboard only says that they are there: those of a panel have a type of its plugin's, those of
# a query of Prometheus are in none of these packages, nor is `definition`, which its editor writes.
TYPES = """
import type { Dashboard, DataQuery, FieldConfig, GraphFieldConfig, Panel, RowPanel, VariableModel } from '@grafana/schema';
import type { Options } from
  '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

type Written<T> = T extends string ? `${T}` : T extends (infer One)[] ? Written<One>[]
  : T extends object ? { [Key in keyof T]: Written<T[Key]> } : T;
type Query = DataQuery & { expr: string; legendFormat: string };
type TimeSeries = Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets'> & {
  type: 'timeseries';
  options: Options;
  fieldConfig: { defaults: Omit<FieldConfig, 'custom'> & { custom: GraphFieldConfig }; overrides: [] };
  targets: Query[];
};
type Row = Omit<RowPanel, 'type' | 'panels'> & { type: 'row'; panels: [] };
type Board = Omit<Dashboard, 'panels' | 'templating'> & {
  panels: (Row | TimeSeries)[];
  templating: { list: (VariableModel & { definition?: string })[] };
};
"""
OPTIONS = {"strict": True, "noEmit": True, "module": "node16", "moduleResolution": "node16", "target": "es2022", "types": []}


@unittest.skipUnless(shutil.which("npm"), "needs npm")
class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="trimtab-grafana-")
        cls.addClassCleanup(place.cleanup)
        cls.directory = pathlib.Path(place.name)
        (cls.directory / "package.json").write_text('{"private": true}')
        (cls.directory / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "files": ["board.ts"]}))
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *PACKAGES], cwd=cls.directory,
                       check=True, stdout=subprocess.DEVNULL)

    def faults(self, board):
        """Where the document is not of Grafana's types, in the compiler's words."""
        (self.directory / "board.ts").write_text(f"{TYPES}export const board: Written<Board> = {json.dumps(board, indent=1)};\n")
        compiled = subprocess.run(["node", "node_modules/typescript/bin/tsc", "-p", "."], cwd=self.directory,
                                  capture_output=True, text=True)
        self.assertEqual(compiled.returncode == 0, compiled.stdout == "", compiled.stderr)
        return compiled.stdout

    def test_the_dashboard_is_of_its_types(self):
        self.assertEqual(self.faults(json.loads(DASHBOARD.read_text())), "")

    def test_a_fault_is_found(self):
        def panels(board):
            return [panel for panel in board["panels"] if panel["type"] == "timeseries"]

        changes = {
            "graph": lambda board: panels(board)[0].update(type="graph"),
            "fillOpacty": lambda board: panels(board)[1]["fieldConfig"]["defaults"]["custom"].update(fillOpacty=10),
            "floating": lambda board: panels(board)[2]["options"]["legend"].update(displayMode="floating"),
            "string": lambda board: panels(board)[3]["gridPos"].update(w="8"),
            "refId": lambda board: panels(board)[4]["targets"][0].pop("refId"),
            "querry": lambda board: board["templating"]["list"][1].update(type="querry"),
        }
        for word, change in changes.items():
            board = json.loads(DASHBOARD.read_text())
            change(board)
            self.assertIn(word, self.faults(board))


if __name__ == "__main__":
    unittest.main()
