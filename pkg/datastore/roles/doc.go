// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roles gives each claim on a postgres datastore a login of its own, with no more rights than the grant.
//
//	ws_shop_<hash>            owns the workspace's schema of the same name and what is in it; nobody can log in as it
//	claim_shop-bank_<hash>    one claim's login; read-write: acts as the owner; read-only: may read what the owner has
//
// A read-write login is a member of the owner, and its sessions begin with SET ROLE: what they create belongs to the
// owner, and stays when the login goes. A session can leave the role (clients that send DISCARD ALL do). What it creates
// then belongs to the login; default privileges open it to the owner and the readers at once, and Drop hands it over.
//
// A read-only login may read tables, views and sequences, those to come included, by default privileges. Its transactions
// are read-only too, as a help for applications: what keeps it from writing is that it has no right to.
//
// After the schema, public is in the search_path, for extensions; nothing may be created there, or Ensure refuses.
//
// A change of permission ends the login's sessions: one that has acted as the owner would go on doing so.
//
// The endpoint's user is a superuser, or has CREATEROLE and owns the database (or may CREATE in it). One that is no
// superuser becomes a member of the roles that it makes, which is how PostgreSQL lets it hand over their objects. From
// PostgreSQL 16 on, only the user that made a role, or one that was given ADMIN OPTION on it, may do so.
//
// Everything that tenants can influence is quoted, and looked up with a search_path that they cannot add to. Errors are
// *datastore.Error, with texts of this package and no word of the server's.
package roles
