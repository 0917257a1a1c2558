package ledgertest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

// RunPostgres tests both contracts on a Postgres database, each case in a schema of its
// own, which is dropped afterwards.
func RunPostgres(t *testing.T, address string) {
	t.Run("Run", func(t *testing.T) {
		Run(t, func(t *testing.T) *ledger.Ledger {
			return OpenPostgres(t, ledger.Options{URL: Schema(t, address), Timeout: time.Minute})
		})
	})
	t.Run("RunLife", func(t *testing.T) {
		RunLife(t, func(t *testing.T, opt ledger.Options) (one, other *ledger.Ledger) {
			opt.URL = Schema(t, address)
			return OpenPostgres(t, opt), OpenPostgres(t, opt)
		})
	})
	t.Run("Open", func(t *testing.T) { postgresOpens(t, address) })
}

// OpenPostgres opens a ledger until the end of the test.
func OpenPostgres(t testing.TB, opt ledger.Options) *ledger.Ledger {
	t.Helper()
	l := must.Get(ledger.Open(opt))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Schema creates an empty schema until the end of the test and returns the URL of the
// database with that schema.
func Schema(t testing.TB, address string) string {
	t.Helper()
	db := must.Get(sql.Open("pgx", address))(t)
	name := "test_" + strings.ToLower(rand.Text())
	must.Get(db.ExecContext(t.Context(), `CREATE SCHEMA `+name))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		expect.OK(t, expect.Err(db.ExecContext(ctx, `DROP SCHEMA `+name+` CASCADE`)), "drop the schema")
		_ = db.Close()
	})
	u := must.Get(url.Parse(address))(t)
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// postgresOpens tests opening a shared store.
func postgresOpens(t *testing.T, address string) {
	exec := func(url, statement string) {
		t.Helper()
		db := must.Get(sql.Open("pgx", url))(t)
		defer db.Close()
		must.Get(db.ExecContext(t.Context(), statement))(t)
	}
	t.Run("many at once make one schema", func(t *testing.T) {
		url := Schema(t, address)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				l, err := ledger.Open(ledger.Options{URL: url, Timeout: time.Minute})
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				defer l.Close()
				expect.OK(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{Row("a")}}), "put")
			})
		}
		all.Wait()
	})
	t.Run("another program's tables are refused", func(t *testing.T) {
		url := Schema(t, address)
		exec(url, `CREATE TABLE ownership (id INT)`)
		wantErr(t, "open", errOf(ledger.Open(ledger.Options{URL: url, Timeout: time.Minute})), ledger.ErrForeign)
	})
	t.Run("tables that are made while it waits for the lock are seen", func(t *testing.T) {
		url := Schema(t, address)
		db := must.Get(sql.Open("pgx", url))(t)
		defer db.Close()
		tx := must.Get(db.BeginTx(t.Context(), nil))(t)
		must.Get(tx.ExecContext(t.Context(), `SELECT pg_advisory_xact_lock(x'6d707278'::BIGINT)`))(t)
		opened := make(chan error, 1)
		go func() {
			_, err := ledger.Open(ledger.Options{URL: url, Timeout: time.Minute})
			opened <- err
		}()
		_, err := tx.ExecContext(t.Context(), `DO $$ BEGIN
			FOR i IN 1..2000 LOOP
				EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted);
				PERFORM pg_sleep(0.01);
			END LOOP;
		END $$; CREATE TABLE ownership (id INT)`)
		must.Do(t, err)
		must.Do(t, tx.Commit())
		wantErr(t, "open", <-opened, ledger.ErrForeign)
	})
	t.Run("the chain is locked before the records", func(t *testing.T) {
		url := Schema(t, address)
		l := OpenPostgres(t, ledger.Options{URL: url, Timeout: time.Minute, Vault: Vault(t)})
		seen := []memproxy.Ownership{Row("m")}
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: seen, Versions: []memproxy.Version{Version("m", "a")}}))
		db := must.Get(sql.Open("pgx", url))(t)
		defer db.Close()
		tx := must.Get(db.BeginTx(t.Context(), nil))(t)
		must.Get(tx.ExecContext(t.Context(), `UPDATE chain SET place = place`))(t)
		changed := make(chan error, 1)
		go func() {
			changed <- l.Commit(t.Context(), memproxy.Entry{ExpectedOwners: seen, Owners: seen, Versions: []memproxy.Version{Version("m", "b")}})
		}()
		_, err := tx.ExecContext(t.Context(), `DO $$ BEGIN
			FOR i IN 1..2000 LOOP
				EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE transactionid = pg_current_xact_id()::xid AND NOT granted);
				PERFORM pg_sleep(0.01);
			END LOOP;
		END $$; SELECT FROM record WHERE id = 'm' FOR UPDATE NOWAIT`)
		expect.OK(t, err, "a record is locked by a transaction that waits for the chain")
		must.Do(t, tx.Rollback())
		expect.OK(t, <-changed)
	})
	t.Run("breaks that two proxies note at once are all stored, each new once", func(t *testing.T) {
		opt := ledger.Options{URL: Schema(t, address), Timeout: time.Minute, Vault: Vault(t)}
		both := []*ledger.Ledger{OpenPostgres(t, opt), OpenPostgres(t, opt)}
		must.Do(t, both[0].Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{Version("m", "text")}}))
		var all sync.WaitGroup
		var fresh atomic.Int64
		const breaks = 20
		for _, l := range both {
			all.Go(func() {
				for i := range int64(breaks) {
					is, err := l.Chains.NoteBreach(t.Context(), memproxy.ChainFault{Class: memproxy.FaultTamper, Tenant: "acme", Position: 100 + i})
					expect.OK(t, err, "note")
					fresh.Add(int64(map[bool]int{true: 1}[is]))
				}
			})
		}
		all.Wait()
		expect.Equal(t, fresh.Load(), breaks, "new")
		expect.Len(t, must.Get(both[0].Chains.Breaches(t.Context(), "acme"))(t), breaks, "stored")
	})
	t.Run("a frozen proxy's transaction ends", func(t *testing.T) {
		url := Schema(t, address)
		l := OpenPostgres(t, ledger.Options{URL: url, Timeout: time.Minute})
		exec(url, `CREATE TABLE heard (idle TEXT);
			CREATE FUNCTION hear() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
				INSERT INTO heard VALUES (current_setting('idle_in_transaction_session_timeout'));
				RETURN NEW;
			END $$;
			CREATE TRIGGER hear BEFORE INSERT ON record FOR EACH ROW EXECUTE FUNCTION hear()`)
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{Row("m")}}))
		db := must.Get(sql.Open("pgx", url))(t)
		defer db.Close()
		var idle string
		must.Do(t, db.QueryRowContext(t.Context(), `SELECT idle FROM heard LIMIT 1`).Scan(&idle))
		expect.Equal(t, idle, "10s", "the time after which Postgres ends it")
	})
	t.Run("leases go by the database's clock", func(t *testing.T) { oneClock(t, exec, address) })
	t.Run("an older schema is migrated", func(t *testing.T) {
		opt := OldOptions(t)
		opt.URL = Schema(t, address)
		exec(opt.URL, string(unzip(t, oldPostgres)))
		want := ledger.Plan{From: 11, To: 25}
		for range 2 { // Rehearse must not migrate
			expect.Equal(t, must.Get(ledger.Rehearse(t.Context(), opt))(t), want, "rehearsed")
		}
		exec(opt.URL, `CREATE TABLE sealing (a INT)`) // makes the migration fail
		expect.Error(t, expect.Err(ledger.Open(opt)), "it was migrated over another table")
		exec(opt.URL, `DROP TABLE sealing`)
		expect.Equal(t, must.Get(ledger.Rehearse(t.Context(), opt))(t), want, "a migration that failed left")
		RunOld(t, OpenPostgres(t, opt))
		url := Schema(t, address)
		must.Do(t, OpenPostgres(t, ledger.Options{URL: url, Timeout: time.Minute}).Close())
		upgraded, fresh := columns(t, opt.URL), columns(t, url)
		expect.That(t, upgraded == fresh && fresh != "", "upgraded:\n%s\nnew:\n%s", upgraded, fresh)
	})
	t.Run("what is edited, or written by an older program, does not count", func(t *testing.T) {
		url, vault := Schema(t, address), Vault(t)
		l := OpenPostgres(t, ledger.Options{URL: url, Timeout: time.Minute, Vault: vault})
		other := OpenPostgres(t, ledger.Options{URL: url, Timeout: time.Minute, Vault: vault})
		e := memproxy.Entry{Owners: []memproxy.Ownership{Row("m"), Row("lost")}, Versions: []memproxy.Version{Version("m", "a"), Version("lost", "b")}}
		must.Do(t, l.Commit(t.Context(), e))
		seen := func(id string) memproxy.Record {
			t.Helper()
			found := must.Get(other.Lookup(t.Context(), mem(id)))(t)
			return found.Of(mem(id))
		}
		a, b := seen("m"), seen("lost")
		expect.That(t, a.Status.Unverified == "" && a.Owner.Scope.Tenant == "acme" && b.Owner.Scope.Tenant == "acme", "%+v, %+v", a, b)
		exec(url, `UPDATE record SET tenant = 'globex' WHERE id = 'm'; DELETE FROM record WHERE id = 'lost'`)
		for range 2 {
			rec := seen("m")
			expect.That(t, rec.Status.State == memproxy.StateQuarantined && rec.Owner.Scope.Tenant == memproxy.TenantInaccessible, "edited: %+v", rec)
			expect.Equal(t, seen("lost").Status.State, memproxy.StateQuarantined, "removed")
			must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: e.Owners}))
		}
		db := must.Get(sql.Open("pgx", url))(t)
		defer db.Close()
		for _, older := range [...]string{
			`INSERT INTO record (backend, kind, id) VALUES ('mem0', 'memory', 'm') ON CONFLICT (backend, kind, id) DO UPDATE SET prior = record.prior`,
			`INSERT INTO vote (subject, reviewer, at, note) VALUES ('hold/2:h1/', 'human:ann', 1, '')`,
		} {
			expect.Error(t, expect.Err(db.ExecContext(t.Context(), older)), "executed", older)
		}
	})
	t.Run("a newer schema is refused", func(t *testing.T) {
		url := Schema(t, address)
		must.Do(t, OpenPostgres(t, ledger.Options{URL: url, Timeout: time.Minute}).Close())
		exec(url, `INSERT INTO memproxy_schema VALUES (99, 0)`)
		wantErr(t, "open", errOf(ledger.Open(ledger.Options{URL: url, Timeout: time.Minute})), ledger.ErrNewer)
	})
}

// columns lists the columns and indexes of all tables, in order.
func columns(t *testing.T, address string) string {
	t.Helper()
	db := must.Get(sql.Open("pgx", address))(t)
	defer db.Close()
	var all string
	err := db.QueryRowContext(t.Context(), `SELECT string_agg(line, chr(10) ORDER BY line, n) FROM (
		SELECT table_name || ' ' || row_number() OVER (PARTITION BY table_name ORDER BY ordinal_position) || ' ' || column_name || ' ' || data_type || ' '
			|| is_nullable || ' ' || coalesce(collation_name, '') || ' ' || coalesce(column_default, '') AS line, 0 AS n FROM information_schema.columns WHERE table_schema = current_schema()
		UNION ALL SELECT replace(indexdef, current_schema() || '.', ''), 1 FROM pg_indexes WHERE schemaname = current_schema()) AS lines`).Scan(&all)
	must.Do(t, err)
	return all
}
